"""The keyword arguments of the constructors, which are those of ``tidelog``'s (a test compares them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from tidelog.bodies.deserialize import Deserializer
from tidelog.bodies.encode import Compression
from tidelog.consumer.consumer import Assignor
from tidelog.consumer.group_reading import OnRebalance
from tidelog.consumer.reader import AutoOffsetReset
from tidelog.producer.delivery import OnDelivery
from tidelog.producer.producer import Serializer


class ConsumerSettings(TypedDict, total=False):
    """As ``tidelog.Consumer`` takes and explains them."""

    bootstrap_servers: str | Sequence[str] | None
    auto_offset_reset: AutoOffsetReset
    max_poll_records: int
    fetch_max_bytes: int
    consumer_timeout_ms: float | None
    request_timeout_ms: float
    api_timeout_ms: float
    compression: Literal["gzip", "zstd"] | None
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    group: str | None
    topic_pattern: str | None
    assignor: Assignor
    session_timeout_ms: int
    client_id: str | None
    instance_id: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: float
    on_revoked: OnRebalance | None
    on_assigned: OnRebalance | None
    on_lost: OnRebalance | None
    ca_file: str | None


class ProducerSettings(TypedDict, total=False):
    """As ``tidelog.Producer`` takes and explains them; ``max_block_ms`` is an argument of its own."""

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
    on_delivery: OnDelivery | None
    transactional_id: str | None
    transaction_timeout_ms: int
    ca_file: str | None
