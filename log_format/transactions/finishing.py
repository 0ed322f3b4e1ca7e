"""Finishes a decided transaction. Repeating it changes nothing, in any process.

1. Each topic gets its records by one commit that names the transaction (``log_format.topic.applied_transactions``): applied
   twice, they are in the log once, at the first places. The records of a topic that was deleted meanwhile are gone with it.
2. Groups get their offsets behind the records: a reader of the offsets finds the records, too, or finishes the transaction. So do
   queues their settlements.
3. The last row is written behind both, and says where the records are. Behind it what was staged is deleted.
4. Staged objects that are missing say that another program was faster, where the row says so, too.
5. Of a large transaction the row names an index in place of the batches. Only gateways apply it, piece by piece.

Programs differ in how they append, decide and read: each hands in its ``Means``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from log_format.errors import CorruptData, ErrorCode, TidelogError, TopicReplaced, UnknownTopic
from log_format.topic.appended import Appended, Duplicate
from log_format.topic.applied_transactions import TransactionEnded
from log_format.transactions.changes import Finish
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_index import is_index
from log_format.transactions.staged_offsets import SUFFIX
from log_format.transactions.staged_records import StagedRecords, staged_key

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class Means(Protocol):
    """What a program finishes a transaction with. In a program that blocks none of these waits."""

    async def each(self, work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]) -> list[ResultT]:
        """Do the work for all items, side by side or one after another. Raises once all that were begun have ended."""

    async def records(self, row: TransactionRow, names: Sequence[str]) -> Sequence[StagedRecords]:
        """The staged records of these names, in order. Raises ``BackOff``, ``CorruptData``."""

    async def append(self, row: TransactionRow, requests: Sequence[StagedRecords]) -> Sequence[Appended] | Duplicate:
        """Append one topic's records, as ``transaction_batch`` has them. Raises what the writer's outcome is."""

    async def append_indexed(self, row: TransactionRow, name: str) -> Sequence[Place]:
        """Append what the index of this name names, each topic's by one commit. Raises ``BackOff``, ``OutcomeUnknown``,
        ``CorruptData``."""

    async def settle(self, row: TransactionRow, names: Sequence[str]) -> None:
        """Make what is staged under these names its group's or queue's. Raises ``BackOff``, ``OutcomeUnknown``."""

    async def record(self, last: Finish) -> TransactionRow:
        """Decide that it has ended; the last row. Raises what that is refused with."""

    async def newest(self, transaction_id: str) -> TransactionRow | None:
        """The row at the table's head. Raises ``BackOff``."""

    async def clean(self, transaction_id: str) -> None:
        """Delete the staged objects, now or later, best effort. Raises nothing."""


async def finish(row: TransactionRow, means: Means) -> TransactionRow:
    """The row of the finished transaction. One that is undecided, or has ended, is returned unchanged.

    Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``: it is not finished then.
    """
    if row.state != "committing":
        return row
    try:
        applied: list[Sequence[Place]] = [
            *await means.each(lambda names: _applied(row, names, means), _by_topic(row)),
            *await means.each(lambda name: means.append_indexed(row, name), [*filter(is_index, row.staged)]),
        ]
        if offsets := staged_offset_names(row):
            await means.settle(row, offsets)
        done = await _recorded(row, [place for places in applied for place in places], means)
    except (CorruptData, TransactionEnded):
        newer = await means.newest(row.transaction_id)
        if newer is not None and newer.state != "committed":
            raise
        return newer or msgspec.structs.replace(row, state="committed", staged=())
    await means.clean(row.transaction_id)
    return done


def staged_offset_names(row: TransactionRow) -> list[str]:
    """The staged objects that hold offsets of groups, or settlements of queues."""
    return [name for name in row.staged if name.endswith(SUFFIX)]


def _by_topic(row: TransactionRow) -> list[list[str]]:
    """The staged objects of each topic, in order. Raises ``CorruptData``."""
    topics: dict[str, list[str]] = {}
    for name in row.staged:
        staged_key(row.transaction_id, name)
        if not name.endswith(SUFFIX) and not is_index(name):
            topic_hash = name.split("-", 2)[1]
            topics.setdefault(topic_hash, []).append(name)
    return list(topics.values())


async def _applied(row: TransactionRow, names: Sequence[str], means: Means) -> Sequence[Place]:
    """Where one topic has its records."""
    requests = [request for request in await means.records(row, names) if request.records.num_rows]
    if not requests:
        return []
    try:
        appended = await means.append(row, requests)
    except (UnknownTopic, TopicReplaced):
        return []
    return places_of(requests[0].topic, appended)


def places_of(topic: str, appended: Sequence[Appended] | Duplicate) -> list[Place]:
    """As the transaction's row has them."""
    places = appended.places if isinstance(appended, Duplicate) else appended
    return [Place(topic, place.partition, place.base_offset, place.count) for place in places]


async def _recorded(row: TransactionRow, found: Sequence[Place], means: Means) -> TransactionRow:
    places = tuple(sorted(found, key=lambda place: (place.topic, place.partition)))
    try:
        return await means.record(Finish(transaction_id=row.transaction_id, places=places))
    except TidelogError as error:
        if error.code is not ErrorCode.UNKNOWN_TRANSACTION:
            raise
        # Another program finished it so long ago that it is forgotten; the places are the same for all.
        return msgspec.structs.replace(row, state="committed", places=places, staged=())
