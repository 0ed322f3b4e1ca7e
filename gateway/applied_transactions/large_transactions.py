"""Application of large transactions of Kafka's clients: each topic's records as many segments in one commit (decision 081).

1. A topic's segments are encoded for its next offsets and uploaded one piece at a time, while others append to the topic. So
   memory is bounded by the pieces under way, whatever the size of the transaction.
2. Then the topic's own appends in this gateway are held, the topic leaves its journal for that time, and pieces whose offsets
   were overtaken are written anew. One commit makes all records visible.
3. A gateway that other gateways overtake time and again leaves the transaction to the sweeps: the gateway that gets the
   topic's appends can hold them. Segments that were uploaded for nothing are orphans.
4. A gateway applies a transaction once at a time. A call that waits too long for it is told that the outcome is not known yet,
   and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from gateway.applied_transactions.staging import MEMORY_WAIT_MS_MAX, Staging
from gateway.call import detached_from_call
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.memory_budget import MemoryBudget
from log_format.errors import BackOff, CorruptData, OutcomeUnknown, TidelogError, TopicReplaced, UnknownTopic
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.append_uploaded import AppendUploadedSegments, ReencodeReason, UploadedSegment
from log_format.topic.applied_transactions import TransactionEnded, TransactionStamp
from log_format.topic.attachment import TopicMove, TopicMoved
from log_format.topic.changes import MoveTopic
from log_format.topic.state import TopicState
from log_format.transactions.finishing import to_places
from log_format.transactions.pieces import Piece, PieceWriter, Placement, place_pieces, split_pieces
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_index import IndexedBatch, group_by_topic

ResultT = TypeVar("ResultT")

PARALLEL_PIECES_MAX: Final = 2
"""Number of pieces under way for one topic: one is read while the other is encoded and uploaded."""
ROUNDS_MAX: Final = 5
"""Number of times that the pieces of a held topic are brought up to its head before the transaction is left to other gateways."""
TRIES_MAX: Final = 5
"""Number of tries of one step while the store refuses it: the work before it is not lost."""


class LargeTransactionTasks:
    """Large transactions that this gateway applies. ``wait_ms_max``: how long a call waits. Used on the event loop only."""

    def __init__(self, wait_ms_max: int) -> None:
        self._wait_ms_max = wait_ms_max
        self._tasks: dict[str, asyncio.Task[TransactionRow]] = {}

    async def outcome(
        self, transaction_id: str, begin: Callable[[], Coroutine[Any, Any, TransactionRow]]
    ) -> TransactionRow:
        """Return the result of ``begin``, which is called unless the transaction is under way. The work goes on when the caller
        is cancelled.

        Raises what ``begin`` raises; ``OutcomeUnknown`` when it takes long.
        """
        task = self._tasks.get(transaction_id)
        if task is None:
            with detached_from_call():
                task = self._tasks[transaction_id] = asyncio.create_task(begin())
            task.add_done_callback(partial(self._ended, transaction_id))
        await asyncio.wait((task,), timeout=self._wait_ms_max / 1000)
        if not task.done() or task.cancelled():
            raise OutcomeUnknown(f"Transaction {transaction_id} is decided, and is being applied: it is large.")
        return task.result()

    async def drain(self) -> None:
        """Cancel the work under way: any gateway begins it anew."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, transaction_id: str, task: asyncio.Task[TransactionRow]) -> None:
        del self._tasks[transaction_id]
        if not task.cancelled():
            task.exception()


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeAppends:
    """Appends of large transactions. ``memory``: budget for the pieces. Used on the event loop only."""

    staging: Staging
    topics: OpenTopics
    access: TableAccess
    memory: MemoryBudget

    async def append(self, row: TransactionRow, name: str, floor: int) -> list[Place]:
        """Append the batches in the index ``name``, one topic after another. ``floor``: that of the transactions' state.

        Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``.
        """
        access = self.access
        writer = PieceWriter(access.store, access.clock, access.new_id, access.fetch_all, row, access.type_records)
        stamp = TransactionStamp(row.transaction_id, row.decided_version, floor)
        places: list[Place] = []
        for batches in group_by_topic(await self.staging.index(row.transaction_id, name)):
            (first,) = await access.write_pool.run(writer.read, batches[:1])
            try:
                topic = await self.topics.fresh(first.topic, access.clock.monotonic_ms())
                pieces = split_pieces(batches, access.bounds.transaction_piece_bytes)
                one = _TopicAppend(self, writer, topic, first.topic_id, stamp, pieces)
                places += to_places(first.topic, await one.append())
            except (UnknownTopic, TopicReplaced):
                continue
        return places


@dataclass(slots=True)
class _Written:
    placement: Placement
    segment: UploadedSegment


@dataclass(slots=True)
class _TopicAppend:
    """The transaction's records of one topic. ``written``: segments by number of the piece."""

    parts: LargeAppends
    writer: PieceWriter
    topic: OpenTopic
    topic_id: str
    stamp: TransactionStamp
    pieces: Sequence[Piece]
    written: dict[int, _Written] = field(default_factory=dict)
    append_time_ms: int = 0
    left: int | None = None
    """Number of the journal that the topic has left for the commit; None if it has not left one."""

    async def append(self) -> Sequence[AppendedRange] | Duplicate:
        """Append; return where the records are. Raises what ``LargeAppends.append`` raises; ``UnknownTopic``,
        ``TopicReplaced``."""
        await self._tried(self._bring_up)  # Most of the work is done while others append.
        async with self.topic.appending.hold_batches():
            try:
                return await self._appended()
            finally:
                await self._join_again()

    async def _appended(self) -> Sequence[AppendedRange] | Duplicate:
        for _ in range(ROUNDS_MAX):
            result = await self._tried(self._commit)
            if isinstance(result, TidelogError) and not isinstance(result, TopicMoved):
                raise result
            if isinstance(result, tuple | Duplicate):
                return result
            if result in {ReencodeReason.TOO_OLD, ReencodeReason.OTHER_SCHEMAS}:
                self.written.clear()
        raise OutcomeUnknown(f"Other gateways keep appending to topic {self.topic.name!r}.")

    async def _join_again(self) -> None:
        """Bring the topic back to the journal that it left. A topic that can't join keeps its own commits."""
        if self.left is not None and self.topic.log.state.attachment is None:
            with suppress(TidelogError):
                reason = "a large transaction was appended"
                await self.topic.moving.change(self._move, joins=self.left, reason=reason)

    async def _commit(self) -> tuple[AppendedRange, ...] | Duplicate | TidelogError | ReencodeReason:
        here = self.topic.log.state.attachment
        if here is not None:
            self.left = here.journal
            await self.topic.moving.change(self._move, leaves=True, reason="a large transaction is appended")
        known = await self._bring_up()
        if known is not None:
            return known
        segments = [self.written[number].segment for number in range(len(self.pieces))]
        return (
            await self.topic.commit(AppendUploadedSegments.from_segments(self.topic_id, self.stamp, segments))
        ).result

    def _move(self, move: TopicMove) -> MoveTopic:
        return MoveTopic(topic_id=self.topic_id, move=move)

    async def _bring_up(self) -> Duplicate | None:
        """Write the missing and stale pieces for the topic's next offsets; return ``Duplicate`` if the topic has the transaction
        already.

        Raises ``TransactionEnded``, and what ``append`` raises.
        """
        state = await self.topic.fresh()
        other = state.incarnation_error(self.topic_id)
        if other is not None:
            raise other
        known = state.transactions.judge(self.stamp)
        if isinstance(known, TidelogError):
            raise known
        if known is None:
            await self._write(state)
        return known

    async def _write(self, state: TopicState) -> None:
        if any(partition >= state.partition_count for piece in self.pieces for partition in piece.counts):
            raise CorruptData(f"A staged batch names a partition that topic {state.topic!r} does not have.")
        wanted = list(place_pieces(self.pieces, state, self.append_time_ms))
        if self._stale(wanted):
            # Under LogAppendTime all pieces get another time: those of one partition must not go back.
            self.append_time_ms = self.parts.access.clock.now_ms()
            wanted = list(place_pieces(self.pieces, state, self.append_time_ms))
        if numbers := self._stale(wanted):
            await self.parts.access.know_schemas(state.config.subjects)
            stale = iter(numbers)
            await _all_ended(self._write_each(stale, wanted, state) for _ in range(PARALLEL_PIECES_MAX))

    def _stale(self, wanted: Sequence[Placement]) -> list[int]:
        written = self.written
        return [
            number for number, one in enumerate(wanted) if number not in written or written[number].placement != one
        ]

    async def _write_each(self, numbers: Iterable[int], wanted: Sequence[Placement], state: TopicState) -> None:
        for number in numbers:
            await self._tried(partial(self._write_piece, number, wanted[number], state))

    async def _tried(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Return the result of repeatable work, retried while it fails temporarily."""
        for attempt in range(1, TRIES_MAX):
            try:
                return await work()
            except TransactionEnded:
                raise
            except (BackOff, OutcomeUnknown):
                await asyncio.sleep(self.parts.access.bounds.large_pause_ms * attempt / 1000)
        return await work()

    async def _write_piece(self, number: int, placement: Placement, state: TopicState) -> None:
        piece = self.pieces[number]
        with await self.parts.memory.reserve_in_turn(_size_bytes(piece.batches), wait_ms=MEMORY_WAIT_MS_MAX):
            run = self.parts.access.write_pool.run
            segment = await run(self.writer.write, piece, placement, state)
        self.written[number] = _Written(placement, segment)


def _size_bytes(batches: Iterable[IndexedBatch]) -> int:
    return sum(batch.size_bytes for batch in batches)


async def _all_ended(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait until all have ended. Raises what the first of them raised."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
