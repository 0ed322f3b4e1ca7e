"""Records of an open transaction: one object for each request, outside the topics, until the transaction is decided.

``system/transactions/staged/<transaction id>/<number, 8 digits>-<topic's hash>-<sequence or x>-<unique>.arrow``. The number
orders the requests. Hash and sequence identify a retry without reading. The object is an Arrow IPC stream of ``BATCH_SCHEMA`` and
each record's partition; its metadata names the topic and the incarnation that the records were routed for. If some records are
delayed, there is a column ``deliver_at``: milliseconds, -1 for a record that is not.

A batch of a Kafka client has ``k<partition>.<sequence>.<records>`` in place of the sequence, by which records of its partition
are counted. Its unique part begins with ``i<hash of the topic's id>-``. Older writers did not add that, and older readers take it
for any unique part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from log_format import layout
from log_format.errors import CorruptData
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.delayed_records import Times
from log_format.topic.batch import Partitions

_TOPIC: Final = b"tidelog.topic"
_TOPIC_ID: Final = b"tidelog.topic_id"
_LANE: Final = r"k([0-9]{1,9})\.([0-9]{1,10})\.([0-9]{1,10})"
_NAME: Final = re.compile(
    rf"([0-9]{{8}})-([0-9a-f]{{20}})-(x|[0-9]{{1,18}}|{_LANE})-(?:i([0-9a-f]{{8}})-)?[A-Za-z0-9-]+(?:\.arrow|\.json)"
)
_INDEX: Final = re.compile(r"[A-Za-z0-9-]{1,200}\.index")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
SCHEMA: Final = BATCH_SCHEMA.append(pa.field("partition", pa.int32()))
_DELIVER_AT: Final = pa.field("deliver_at", pa.int64())


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRecords:
    """The records of one request, routed. ``records`` has ``BATCH_SCHEMA``. ``deliver_at``: None if no record is delayed."""

    topic: str
    topic_id: str
    records: pa.Table
    partitions: Partitions
    deliver_at: Times | None = None


class StagedLane(NamedTuple):
    """A Kafka client's batch: its partition, its first record's sequence, and its number of records."""

    partition: int
    sequence: int
    record_count: int
    incarnation: str = ""
    """Hash of the topic's id (``incarnation_hash``); empty in names by older versions."""

    def __str__(self) -> str:
        return f"k{self.partition}.{self.sequence}.{self.record_count}"


@dataclass(frozen=True, slots=True, order=True)
class StagedName:
    """The parts of a staged object's name; ordered by staging."""

    number: int
    name: str
    topic_hash: str
    sequence: int | None
    lane: StagedLane | None = None


STAGED: Final = f"{layout.TRANSACTIONS_ROOT}staged/"
"""Key prefix of all staged objects."""


def staged_prefix(transaction_id: str) -> str:
    """Return the key prefix of a transaction's staged objects."""
    return f"{STAGED}{transaction_id}/"


def staged_key(transaction_id: str, name: str) -> str:
    """Return the key of a staged object that a decision names. Raises ``CorruptData`` for a name that the transaction
    can't have."""
    is_name = _NAME.fullmatch(name) is not None or _INDEX.fullmatch(name) is not None
    if _ID.fullmatch(transaction_id) is None or not is_name:
        raise CorruptData(
            f"The decision of transaction {transaction_id[:100]!r} names {name[:100]!r}, which is no staged object: it was not "
            f"written by Tidelog.",
            object=f"{staged_prefix(transaction_id[:100])}{name[:100]}",
        )
    return f"{staged_prefix(transaction_id)}{name}"


def staged_name(
    number: int, topic: str, sequence: int | StagedLane | None, unique: str, *, suffix: str = ".arrow"
) -> str:
    """Return the name of a staged object below ``staged_prefix``.

    Args:
        number: position among the transaction's requests.
        topic: topic, or group of offsets.
        sequence: the request's sequence, a Kafka client's batch, or None.
        unique: unique text.
        suffix: ending; offsets have another one (``staged_offsets``).
    """
    if isinstance(sequence, StagedLane) and sequence.incarnation:
        unique = f"i{sequence.incarnation}-{unique}"
    return f"{number:08d}-{topic_hash(topic)}-{'x' if sequence is None else sequence}-{unique}{suffix}"


def topic_hash(topic: str) -> str:
    """Return the topic's part of a staged object's name, of limited length."""
    return hashlib.sha256(topic.encode()).hexdigest()[:20]


def incarnation_hash(topic_id: str) -> str:
    """Return the incarnation's part of the name of a Kafka client's batch, so that its decision need not read each one."""
    return hashlib.sha256(topic_id.encode()).hexdigest()[:8]


def parse_names(keys: Iterable[str]) -> list[StagedName]:
    """Return the names below a ``staged_prefix``, in order; only the first for a request that was staged twice."""
    found: list[StagedName] = []
    seen: set[tuple[str, int | None, tuple[int | str, ...]]] = set()
    for key in keys:
        staged = parse_name(key.rpartition("/")[2])
        if staged is not None:
            found.append(staged)
    kept = []
    for staged in sorted(found, key=lambda one: (one.number, one.name)):
        if staged.sequence is not None or staged.lane is not None:
            # A batch is the same batch, whichever incarnation it was staged for.
            one = (staged.topic_hash, staged.sequence, () if staged.lane is None else staged.lane[:3])
            if one in seen:
                continue
            seen.add(one)
        kept.append(staged)
    return kept


def parse_name(name: str) -> StagedName | None:
    """Return the parts of a name; None for one that no staged object has."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number, topic_hash, text, partition, sequence, count, incarnation = match.groups()
    lane = None
    if partition is not None:
        lane = StagedLane(int(partition), int(sequence), int(count), incarnation or "")
    return StagedName(int(number), name, topic_hash, None if text == "x" or lane is not None else int(text), lane)


def encode_staged(staged: StagedRecords) -> bytes:
    """Encode the object, not compressed, so that its size in the store is its size in memory."""
    table = staged.records.append_column("partition", pa.array(staged.partitions, pa.int32()))
    if staged.deliver_at is not None:
        table = table.append_column(_DELIVER_AT, pa.array(staged.deliver_at, pa.int64()))
    table = table.replace_schema_metadata({_TOPIC: staged.topic, _TOPIC_ID: staged.topic_id})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def decode_staged(data: bytes, key: str) -> StagedRecords:
    """Decode the result of ``encode_staged``. Raises only ``CorruptData``."""
    try:
        table = pa.ipc.open_stream(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        metadata = table.schema.metadata or {}
        topic, topic_id = metadata[_TOPIC].decode(), metadata[_TOPIC_ID].decode()
        schema = SCHEMA if _DELIVER_AT.name not in table.schema.names else SCHEMA.append(_DELIVER_AT)
        table = table.replace_schema_metadata(None).cast(schema).combine_chunks()
        deliver_at = (
            np.asarray(table.column(_DELIVER_AT.name).to_numpy(), np.int64) if len(schema) > len(SCHEMA) else None
        )
        partitions = np.asarray(table.column("partition").to_numpy(), np.int32)
    except (pa.ArrowException, OSError, KeyError, ValueError) as problem:
        raise CorruptData(f"{key} holds no staged records: {problem}.", object=key) from problem
    return StagedRecords(
        topic=topic,
        topic_id=topic_id,
        records=table.select(BATCH_SCHEMA.names),
        partitions=partitions,
        deliver_at=deliver_at,
    )
