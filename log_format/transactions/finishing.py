"""Finishing a decided transaction. It is idempotent, and any process can do it.

1. Each topic gets its records by one commit that names the transaction (``log_format.topic.applied_transactions``). If applied
   twice, the records are in the log once, at their first offsets. Records of a topic that was deleted meanwhile are dropped.
2. Groups get their offsets after the records: a reader of the offsets finds the records, too, or finishes the transaction. Queues
   get their settlements in the same way.
3. The last row is written after both, and says where the records are. Then the staged objects are deleted.
4. If staged objects are missing, another program was faster, provided that the row says so, too.
5. The row of a large transaction names an index instead of batches. Only gateways apply it, piece by piece.

Programs differ in how they append, decide and read: each passes its own ``FinishingOperations``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from log_format.errors import CorruptData, ErrorCode, TidelogError, TopicReplaced, UnknownTopic
from log_format.topic.append import Batch
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.applied_transactions import TransactionEnded, TransactionStamp
from log_format.transactions.changes import FinishTransaction
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_index import is_index
from log_format.transactions.staged_offsets import SUFFIX
from log_format.transactions.staged_records import StagedRecords, staged_key

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class FinishingOperations(Protocol):
    """The operations by which a program finishes a transaction. In a program that blocks, none of these coroutines waits."""

    async def each(self, work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]) -> list[ResultT]:
        """Do the work for all items, in parallel or one after another. Raises after all that were begun have ended."""

    async def records(self, row: TransactionRow, names: Sequence[str]) -> Sequence[StagedRecords]:
        """Return the staged records of these names, in order. Raises ``BackOff``, ``CorruptData``."""

    async def append(
        self, row: TransactionRow, requests: Sequence[StagedRecords]
    ) -> Sequence[AppendedRange] | Duplicate:
        """Append one topic's records, as ``transaction_batch`` puts them together. Raises the writer's error."""

    async def append_indexed(self, row: TransactionRow, name: str) -> Sequence[Place]:
        """Append the batches in this index, each topic's by one commit. Raises ``BackOff``, ``OutcomeUnknown``,
        ``CorruptData``."""

    async def settle(self, row: TransactionRow, names: Sequence[str]) -> None:
        """Commit the staged offsets or settlements of these names to their group or queue. Raises ``BackOff``,
        ``OutcomeUnknown``."""

    async def record(self, last: FinishTransaction) -> TransactionRow:
        """Write that the transaction has ended, and return its last row. Raises the ``TidelogError`` that refuses it."""

    async def newest(self, transaction_id: str) -> TransactionRow | None:
        """Return the row at the table's head. Raises ``BackOff``."""

    async def clean(self, transaction_id: str) -> None:
        """Delete the staged objects, now or later, best effort. Raises nothing."""


async def finish(row: TransactionRow, means: FinishingOperations) -> TransactionRow:
    """Finish the transaction and return its last row. One that is undecided, or has ended, is returned unchanged.

    Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``: then it is not finished.
    """
    if row.state != "committing":
        return row
    try:
        applied: list[Sequence[Place]] = [
            *await means.each(lambda names: _append_records(row, names, means), _group_by_topic(row)),
            *await means.each(lambda name: means.append_indexed(row, name), [*filter(is_index, row.staged)]),
        ]
        if offsets := staged_offset_names(row):
            await means.settle(row, offsets)
        done = await _record_end(row, [place for places in applied for place in places], means)
    except (CorruptData, TransactionEnded):
        newer = await means.newest(row.transaction_id)
        if newer is not None and newer.state != "committed":
            raise
        return newer or msgspec.structs.replace(row, state="committed", staged=())
    await means.clean(row.transaction_id)
    return done


def transaction_batch(row: TransactionRow, requests: Sequence[StagedRecords], floor: int, now_ms: int) -> Batch:
    """Return one topic's batch.

    Args:
        row: the transaction.
        requests: the staged requests for the topic, at least one, in order.
        floor: floor of the transactions' state.
        now_ms: timestamp of the records under ``LogAppendTime``, since they are appended only now.
    """
    return Batch(
        topic_id=requests[0].topic_id,
        records=pa.concat_tables([request.records for request in requests]),
        partitions=np.concatenate([request.partitions for request in requests]),
        record_bytes_max=0,  # checked at staging: a decided transaction can't be refused
        transaction=TransactionStamp(row.transaction_id, row.decided_version, floor),
        append_time_ms=now_ms,
    )


def staged_offset_names(row: TransactionRow) -> list[str]:
    """Return the names of staged objects with offsets of groups, or settlements of queues."""
    return [name for name in row.staged if name.endswith(SUFFIX)]


def _group_by_topic(row: TransactionRow) -> list[list[str]]:
    """Return the names of each topic's staged objects, in order. Raises ``CorruptData``."""
    topics: dict[str, list[str]] = {}
    for name in row.staged:
        staged_key(row.transaction_id, name)
        if not name.endswith(SUFFIX) and not is_index(name):
            topic_hash = name.split("-", 2)[1]
            topics.setdefault(topic_hash, []).append(name)
    return list(topics.values())


async def _append_records(row: TransactionRow, names: Sequence[str], means: FinishingOperations) -> Sequence[Place]:
    """Append one topic's records; return their places."""
    requests = [request for request in await means.records(row, names) if request.records.num_rows]
    if not requests:
        return []
    try:
        appended = await means.append(row, requests)
    except (UnknownTopic, TopicReplaced):
        return []
    return to_places(requests[0].topic, appended)


def to_places(topic: str, appended: Sequence[AppendedRange] | Duplicate) -> list[Place]:
    """Return the places in the form of the transaction's row."""
    places = appended.offset_ranges if isinstance(appended, Duplicate) else appended
    return [Place(topic, place.partition, place.base_offset, place.count) for place in places]


async def _record_end(row: TransactionRow, found: Sequence[Place], means: FinishingOperations) -> TransactionRow:
    places = tuple(sorted(found, key=lambda place: (place.topic, place.partition)))
    try:
        return await means.record(FinishTransaction(transaction_id=row.transaction_id, places=places))
    except TidelogError as error:
        if error.code is not ErrorCode.UNKNOWN_TRANSACTION:
            raise
        # Another program finished it so long ago that it is forgotten; the places are the same for all.
        return msgspec.structs.replace(row, state="committed", places=places, staged=())
