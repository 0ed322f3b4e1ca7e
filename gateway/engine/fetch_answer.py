"""A fetch's request and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gateway.engine.bounds import SMALL_ANSWER_BYTES, SMALL_ANSWER_RECORDS
from gateway.engine.read_records import Records
from gateway.memory_budget import Reservation
from log_format.errors import TidelogError
from log_format.records.filter import RecordFilter

StartWord = Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFrom:
    """One partition to read: from an offset or a word, or from the first record with ``timestamp_ms`` or later; not both."""

    topic: str
    partition: int
    offset: int | StartWord | None = None
    timestamp_ms: int | None = None
    filter: RecordFilter | None = None
    """Filter of the wanted records; None: all."""
    bytes_max: int | None = None
    """Limit of this partition alone; None: only the total counts."""
    topic_id: str | None = None
    """Id of the topic that ``offset`` belongs to: a topic made anew under the name is read from its start. None: any topic of the
    name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Totals of a fetch: records (from 1), bytes of keys, values and headers (from 1), bytes to wait for (from 0), wait (from
    0)."""

    records_max: int
    bytes_max: int
    bytes_min: int
    wait_ms_max: int
    sent_bytes: Callable[[Sequence[Fetched | TidelogError]], int] | None = None
    """Function that returns the bytes of these partitions as sent, for ``bytes_min``; None: bytes of keys, values and headers
    count."""

    @property
    def are_small(self) -> bool:
        """Whether the limits allow a small answer only."""
        return self.bytes_max <= SMALL_ANSWER_BYTES and self.records_max <= SMALL_ANSWER_RECORDS

    def as_small(self) -> FetchLimits:
        """Return the same limits for a small answer."""
        return replace(
            self,
            bytes_max=min(self.bytes_max, SMALL_ANSWER_BYTES),
            records_max=min(self.records_max, SMALL_ANSWER_RECORDS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of one partition."""

    topic: str
    topic_id: str
    partition: int
    records: Records
    high_watermark: int
    log_start_offset: int


@dataclass(slots=True)
class FetchAnswer:
    """Results of the partitions in the order of the request. Their memory is reserved: release it once they are sent."""

    parts: list[Fetched | TidelogError]
    reservation: Reservation
    record_count: int = 0
    """Number of records of all partitions."""
    size_bytes: int = 0
    """Bytes of keys, values and headers of all partitions."""
    is_final: bool = False
    """Whether waiting would not make the answer better: a partition failed or is full."""

    def take(self, part: Fetched | TidelogError) -> None:
        """Add the result of the next partition."""
        self.parts.append(part)
        if isinstance(part, Fetched):
            self.record_count += part.records.record_count
            self.size_bytes += part.records.size_bytes
            self.is_final |= part.records.is_full
        else:
            self.is_final = True

    def has_minimum(self, limits: FetchLimits) -> bool:
        """Return whether the answer has the bytes that the fetch waits for."""
        # A tombstone without a key has no bytes, yet a reader that waits for the least bytes should get it.
        if not self.record_count or limits.bytes_min <= 1 or self.size_bytes >= limits.bytes_min:
            return self.record_count > 0
        return limits.sent_bytes is not None and limits.sent_bytes(self.parts) >= limits.bytes_min
