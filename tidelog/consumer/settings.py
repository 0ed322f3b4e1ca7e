"""Settings of a consumer, as one checked value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from log_format import limits as contract
from tidelog.arguments import check_topics
from tidelog.bodies.deserialize import Deserializer
from tidelog.types.filter import Filter
from tidelog.types.record import TopicPartition
from tidelog.types.sealing import Sealing

Assignor = Literal["range", "roundrobin", "sticky"]
AutoOffsetReset = Literal["earliest", "latest", "none"]
HistoryMode = Literal["auto", "gateway"]
OnRebalance = Callable[[list[TopicPartition]], None]


class ConsumerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a consumer, named and explained as the arguments of ``Consumer``.

    Creating one raises ``TypeError``, and ``ValueError`` for an invalid or useless value.
    """

    topics: tuple[str, ...]
    group: str | None
    topic_pattern: str | None
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

    def __post_init__(self) -> None:
        check_topics(self.topics, self.compression)
        if self.auto_offset_reset not in {"earliest", "latest", "none"}:
            raise ValueError(f"auto_offset_reset is {self.auto_offset_reset!r}, not 'earliest', 'latest' or 'none'")
        if self.history not in {"auto", "gateway"}:
            raise ValueError(f"history is {self.history!r}, not 'auto' or 'gateway'")
        if self.max_poll_records < 1:
            raise ValueError(f"max_poll_records is {self.max_poll_records}, below 1")
        if not 1 <= self.fetch_max_bytes <= contract.FETCH_BYTES_MAX:
            raise ValueError(f"fetch_max_bytes is {self.fetch_max_bytes}, not 1 to {contract.FETCH_BYTES_MAX}")
        if self.auto_commit_interval_ms < 0:
            raise ValueError(f"auto_commit_interval_ms is {self.auto_commit_interval_ms}, below 0")
        if not self.max_poll_interval_ms > 0:
            raise ValueError(f"max_poll_interval_ms is {self.max_poll_interval_ms}, not above 0")
        if self.value is not None and self.value_deserializer is not None:
            raise ValueError("value and value_deserializer exclude each other")
        self._check_group()

    def _check_group(self) -> None:
        if self.group is None:
            if self.topic_pattern is not None or self.instance_id is not None:
                raise ValueError("topic_pattern and instance_id need a group")
            return
        if self.topics and self.topic_pattern is not None:
            raise ValueError("topics and topic_pattern exclude each other")
        least, most = contract.SESSION_TIMEOUT_MS_MIN, contract.SESSION_TIMEOUT_MS_MAX
        if not least <= self.session_timeout_ms <= most:
            raise ValueError(f"session_timeout_ms is {self.session_timeout_ms}, not {least} to {most}")

    @property
    def is_member(self) -> bool:
        """Whether the consumer joins its group, which then assigns the partitions."""
        return self.group is not None and (bool(self.topics) or self.topic_pattern is not None)

    @property
    def join_body(self) -> dict[str, Any]:
        """Body of a join request."""
        wanted = {"topics": list(self.topics)} if self.topics else {"topic_pattern": self.topic_pattern}
        names = {"assignor": self.assignor, "client_id": self.client_id, "instance_id": self.instance_id}
        given = {name: value for name, value in names.items() if value is not None}
        return {**wanted, **given, "session_timeout_ms": self.session_timeout_ms}
