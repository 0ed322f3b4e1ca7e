"""The content of a commit of ``system/queues``: queues, and what they have settled of their partitions.

The rows of a commit are in its data file, for readers of the table with SQL. Replay reads only the tag ``tidelog.queues`` of its
``add``. Leases are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from log_format.delta.system_table import data_bytes
from log_format.delta.tag_compression import compress_tag, decompress_tag
from log_format.queues.runs import Run

TAG_QUEUES: Final = "tidelog.queues"
LATEST: Final = "latest"
EARLIEST: Final = "earliest"
Key = tuple[str, int]
"""Id of a topic's incarnation, and partition."""


class QueueFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of the records that a queue delivers: all of ``headers`` (``name:value``) must hold, and the key must
    be ``key``."""

    headers: tuple[str, ...] = ()
    key: str | None = None


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a queue, as in docs/http-api.md, section 11."""

    topics: tuple[str, ...]
    start: str | int = LATEST
    """``latest``, ``earliest``, or a timestamp in milliseconds."""
    lock_ms: int
    max_deliveries: int
    dead_letter_topic: str | None = None
    backoff_ms: tuple[int, ...] = ()
    max_in_flight: int
    order: str = "none"
    expired: str = "drop"
    filter: QueueFilter | None = None


class QueueRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A queue, and its coordinator."""

    queue: str
    queue_id: str
    """Id of this incarnation: the request that created it."""
    epoch: int
    """Number raised by each take-over; writes of an earlier coordinator are refused. 0: no gateway has coordinated it yet."""
    coordinator: str
    lock_ms_max: int
    """Longest lock that a lease may have; 0 if none was ever given."""
    inherited_ms: int = 0
    """Longest lock of the former coordinator's leases, for which this one waits after its claim."""
    settings: QueueSettings
    changed_at_ms: int


class PartitionChange(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A change to ranges of one partition. ``start_offset``: everything before it is settled; it never goes back."""

    queue: str
    topic: str
    topic_id: str
    partition: int
    start_offset: int = 0
    runs: tuple[Run, ...] = ()
    """Disjoint runs, ascending."""

    @property
    def key(self) -> Key:
        """Key of the partition within its queue."""
        return (self.topic_id, self.partition)


class RedrivePosition(msgspec.Struct, frozen=True, array_like=True):
    """The position up to which a queue has redriven a partition of its dead letter topic."""

    topic_id: str
    partition: int
    next_offset: int
    next_number: int = 0
    """Number below which letters have been passed (docs/format.md, section 15)."""

    @property
    def key(self) -> Key:
        """Key of the partition."""
        return (self.topic_id, self.partition)


class PendingSettlement(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Settlements that wait for a transaction: ``on_commit`` or ``on_abort`` is applied when it has ended."""

    pending_id: str
    queue: str
    transaction_id: str
    on_commit: tuple[PartitionChange, ...]
    on_abort: tuple[PartitionChange, ...]
    positions: tuple[RedrivePosition, ...] = ()
    """Positions of a redrive, once it is committed."""
    prepared_at_ms: int


class QueueChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of one decision, applied in this order. A commit has several, one after another."""

    queues: tuple[QueueRow, ...] = ()
    forgotten: tuple[tuple[str, str], ...] = ()
    """Queues and topic ids whose partitions are forgotten."""
    partitions: tuple[PartitionChange, ...] = ()
    pending: tuple[PendingSettlement, ...] = ()
    concluded: tuple[tuple[str, str], ...] = ()
    """Queues and pending ids that no longer wait; the changes to their ranges are in ``partitions``."""
    positions: tuple[tuple[str, RedrivePosition], ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_RUN: Final = pa.struct(
    [("first_offset", pa.int64()), ("last_offset", pa.int64()), ("state", pa.string()), ("count", pa.int32())]
)
SCHEMA: Final = pa.schema(
    [
        ("queue", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("topic_id", pa.string()),
        ("start_offset", pa.int64()),
        ("runs", pa.list_(_RUN)),
        ("settings", pa.string()),
        ("recorded_at", _TIMESTAMP),
    ]
)
_STATES: Final = ("settled", "released", "dead")
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[QueueChanges])


def encode_rows(changes: Sequence[QueueChanges], partitions: Sequence[PartitionChange], now_ms: int) -> bytes:
    """Encode the data file of a commit: a row for each new or changed queue, and for each partition as it is now."""
    rows: list[Mapping[str, Any]] = [
        {"queue": row.queue, "settings": _ENCODER.encode(row.settings).decode()}
        for one in changes
        for row in one.queues
    ]
    rows += [
        {
            "queue": one.queue,
            "topic": one.topic,
            "partition": one.partition,
            "topic_id": one.topic_id,
            "start_offset": one.start_offset,
            "runs": [
                {"first_offset": run.first, "last_offset": run.last, "state": _STATES[run.state], "count": run.count}
                for run in one.runs
            ],
        }
        for one in partitions
    ]
    return data_bytes(pa.Table.from_pylist([{**row, "recorded_at": now_ms * 1000} for row in rows], schema=SCHEMA))


def encode_tag(changes: Sequence[QueueChanges]) -> str:
    """Encode the tag of an ``add`` with these changes: JSON; if long, compressed with zlib, as base64."""
    return compress_tag(_ENCODER.encode(changes))


def decode_tag(tag: str) -> list[QueueChanges]:
    """Decode the result of ``encode_tag``. Raises ``ValueError`` for anything else."""
    return _DECODER.decode(decompress_tag(tag))
