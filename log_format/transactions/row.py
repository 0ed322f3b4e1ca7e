"""A row of ``system/transactions``: the state of one transaction, or the newest epoch of a transactional id.

The rows of a commit are in its data file, for readers of the table with SQL, and in the tag ``tidelog.transactions`` of its
``add``, so that replay reads no data file. A later row of a transaction replaces the earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from log_format.delta.system_table import data_bytes
from log_format.delta.table import NO_LOG
from log_format.topic.producers import ProducerStamp

TAG_TRANSACTIONS: Final = "tidelog.transactions"

RowState = Literal["producer", "open", "committing", "committed", "aborted"]
"""State of a row. ``producer``: no transaction, only a new epoch."""
Reason = Literal["", "asked", "fenced", "expired", "topic", "offsets"]
"""Reason of an abort: ``asked`` by its client, ``fenced`` by a newer epoch, ``expired``, a deleted ``topic``, or refused
``offsets`` of a group."""

NO_SEQUENCE: Final = -1
NO_NUMBER: Final = -1
NO_EPOCH: Final = -1
OWNERS_MAX: Final = 4
"""Number of newest owners that a row remembers. A former owner among them is told that it is fenced, any other that there is no
such producer."""
NEVER_CHECKED: Final = -1


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The offset range of a transaction's records in a partition: ``[base_offset, base_offset + record_count)``."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


class TransactionRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A row. ``transaction_id`` is empty only in ``state`` ``producer``. Times are in milliseconds since the epoch."""

    transaction_id: str
    transactional_id: str
    producer_id: str
    epoch: int
    state: RowState
    reason: Reason = ""
    began_at_ms: int
    expires_at_ms: int
    recorded_at_ms: int
    staged: tuple[str, ...] = ()
    """Names of the staged objects in the decision, in the order in which they are applied."""
    places: tuple[Place, ...] = ()
    """Offset ranges of a committed transaction's records, in order of topic and partition."""
    sequence: int = NO_SEQUENCE
    """The producer's sequence, for a transaction of one request, which has no transactional id."""
    decided_version: int = NO_LOG
    """Version of the table at which a committing or committed transaction was decided."""
    number: int = NO_NUMBER
    """The client's own number of the transaction: the batch that a query writes with it."""
    last_number: int = NO_NUMBER
    """Newest number that the transactional id had committed before it."""
    owners: tuple[str, ...] = ()
    """Fingerprints of the distinct owners of the transactional id's newest epochs, the present one last; at most ``OWNERS_MAX``.
    Empty if the present epoch has no owner."""
    check_at_ms: int = NEVER_CHECKED
    """Time from which an open transaction may be offered to an asker."""
    checks: int = 0
    """Number of offers so far."""
    lanes: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    """Lanes of a Kafka client's transaction, as in ``lanes.Lanes``."""
    resumed_epoch: int = NO_EPOCH
    """Epoch whose own client asked for this one, in state ``producer``."""
    resumed_producer_id: str = ""
    """Producer id of that epoch, if it was the id's last epoch; else it is the row's own."""
    lost: int = 0
    """Number of staged objects that a decided transaction goes without (``log_format.transactions.damaged_transactions``)."""

    @property
    def committed_number(self) -> int:
        """Newest number that the transactional id has committed, including this row."""
        is_decided = self.state in ("committing", "committed") and self.number != NO_NUMBER
        return self.number if is_decided else self.last_number

    @property
    def stamp(self) -> ProducerStamp | None:
        """Request of a transaction of one request with producer headers; None for any other."""
        if self.transactional_id or self.sequence == NO_SEQUENCE:
            return None
        return ProducerStamp(self.producer_id, self.epoch, self.sequence)

    @property
    def has_ended(self) -> bool:
        """Whether the state is final."""
        return self.state in ("committed", "aborted")


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_PLACE: Final = pa.struct(
    [("topic", pa.string()), ("partition", pa.int32()), ("base_offset", pa.int64()), ("record_count", pa.int64())]
)
SCHEMA: Final = pa.schema(
    [
        ("transaction_id", pa.string()),
        ("transactional_id", pa.string()),
        ("producer_id", pa.string()),
        ("epoch", pa.int32()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("began_at", _TIMESTAMP),
        ("expires_at", _TIMESTAMP),
        ("recorded_at", _TIMESTAMP),
        ("staged", pa.list_(pa.string())),
        ("places", pa.list_(_PLACE)),
    ]
)
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[TransactionRow])


def encode_rows(rows: Sequence[TransactionRow]) -> bytes:
    """Encode the data file of a commit with these rows: Parquet with ``SCHEMA``."""
    columns: dict[str, list[Any]] = {
        "transaction_id": [row.transaction_id or None for row in rows],
        "transactional_id": [row.transactional_id or None for row in rows],
        "producer_id": [row.producer_id or None for row in rows],
        "epoch": [row.epoch for row in rows],
        "state": [row.state for row in rows],
        "reason": [row.reason or None for row in rows],
        "began_at": [row.began_at_ms * 1000 for row in rows],
        "expires_at": [row.expires_at_ms * 1000 for row in rows],
        "recorded_at": [row.recorded_at_ms * 1000 for row in rows],
        "staged": [list(row.staged) for row in rows],
        "places": [[msgspec.structs.asdict(place) for place in row.places] for row in rows],
    }
    return data_bytes(pa.table(columns, schema=SCHEMA))


def encode_tag(rows: Sequence[TransactionRow]) -> str:
    """Encode the tag of an ``add`` with these rows."""
    return _ENCODER.encode(rows).decode()


def decode_tag(tag: str) -> list[TransactionRow]:
    """Decode the result of ``encode_tag``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    return _DECODER.decode(tag)
