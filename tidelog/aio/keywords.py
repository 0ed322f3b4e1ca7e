"""Keyword arguments of the constructors, equal to those of ``tidelog`` (a test compares them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tidelog.bodies.deserialize import Deserializer
from tidelog.bodies.encode import Compression
from tidelog.consumer.settings import Assignor, AutoOffsetReset, HistoryMode, OnRebalance
from tidelog.http.credentials import ConnectionSettings
from tidelog.producer.conversion import Serializer
from tidelog.producer.delivery import OnDelivery
from tidelog.types.filter import Filter
from tidelog.types.sealing import Sealing


class ConsumerKeywords(ConnectionSettings, total=False):
    """Settings of a consumer, as ``tidelog.Consumer`` explains them."""

    bootstrap_servers: str | Sequence[str] | None
    auto_offset_reset: AutoOffsetReset
    filter: Filter | None
    max_poll_records: int
    fetch_max_bytes: int
    consumer_timeout_ms: float | None
    request_timeout_ms: float
    api_timeout_ms: float
    compression: Literal["gzip", "zstd"] | None
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    value: type | None
    envelope: Sealing | None
    group: str | None
    topic_pattern: str | None
    assignor: Assignor
    session_timeout_ms: int
    max_poll_interval_ms: float
    client_id: str | None
    instance_id: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    on_revoked: OnRebalance | None
    on_assigned: OnRebalance | None
    on_lost: OnRebalance | None
    history: HistoryMode
    store: str | None


class QueueConsumerKeywords(ConnectionSettings, total=False):
    """Settings of a queue consumer, as ``tidelog.QueueConsumer`` explains them."""

    bootstrap_servers: str | Sequence[str] | None
    max_poll_records: int
    fetch_max_bytes: int
    lock_ms: int | None
    envelope: Sealing | None
    client_id: str | None
    consumer_timeout_ms: float | None
    request_timeout_ms: float
    api_timeout_ms: float
    compression: Literal["gzip", "zstd"] | None


class ProducerKeywords(ConnectionSettings, total=False):
    """Settings of a producer, as ``tidelog.Producer`` explains them; ``max_block_ms`` is a separate argument."""

    linger_ms: float
    batch_bytes: int
    buffer_bytes: int
    max_in_flight: int
    enable_idempotence: bool
    delivery_timeout_ms: float
    request_timeout_ms: float
    compression: Compression | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    envelope: Sealing | None
    on_delivery: OnDelivery | None
    transactional_id: str | None
    transaction_timeout_ms: int | None
    transaction_check_after_ms: int | None
    register: bool
