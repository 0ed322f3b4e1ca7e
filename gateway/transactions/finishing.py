"""Brings decided transactions to their end: whoever finds one does, and doing it twice changes nothing.

1. A topic gets the records of a transaction by one commit that names it (``log_format.topic.applied_transactions``): applied
   twice, it is in the log once, at the first places.
2. The last row is written when every topic has its records and every group its offsets; it says where the records are.
3. What is staged is deleted behind the last row. Two gateways may finish one at once: who comes later finds it ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from gateway.engine.bounds import COMMIT_WAIT_MS_MAX, PRODUCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.registry import TopicRegistry
from gateway.engine.writer import Acknowledgement
from gateway.transactions.decider import Decider
from gateway.transactions.group_offsets import GroupOffsets, groups_of
from gateway.transactions.staging import Staged, Staging
from log_format.clock import Clock
from log_format.errors import (
    BackOff,
    CorruptData,
    ErrorCode,
    OutcomeUnknown,
    TidelogError,
    TopicReplaced,
    UnknownTopic,
)
from log_format.topic.append import Batch
from log_format.topic.appended import Duplicate
from log_format.topic.applied_transactions import TransactionEnded
from log_format.transactions.batch import transaction_batch
from log_format.transactions.changes import Finish
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_records import StagedRecords

_log = logging.getLogger("gateway.transactions")


class Finishing:
    """Belongs to the event loop."""

    def __init__(
        self, decider: Decider, staging: Staging, topics: TopicRegistry, group_offsets: GroupOffsets, *, clock: Clock
    ) -> None:
        self._decider = decider
        self._staging = staging
        self._topics = topics
        self._group_offsets = group_offsets
        self._clock = clock
        self._cleaning: set[asyncio.Task[None]] = set()

    async def finished(self, row: TransactionRow, staged: Staged | None) -> TransactionRow:
        """The row of a transaction at its end; ``staged``: what its decision takes, where that is in memory.

        One that is not decided, or has ended, is given back as it is. Raises ``OutcomeUnknown``: it is decided, so it is refused
        no more.
        """
        if row.state != "committing":
            return row
        try:
            return await self._finished(row, staged)
        except OutcomeUnknown:
            raise
        except TidelogError as error:
            raise OutcomeUnknown(
                f"Transaction {row.transaction_id} is decided, but not all of it is visible yet: {error.detail}"
            ) from error

    async def _finished(self, row: TransactionRow, staged: Staged | None) -> TransactionRow:
        try:
            if staged is not None:
                return await self._ended(row, staged)
            async with self._staging.held(row.transaction_id, row.staged) as found:
                return await self._ended(row, found)
        except (CorruptData, TransactionEnded):
            # Another gateway may have finished it meanwhile, and deleted what was staged.
            newer = (await self._decider.fresh()).transactions.get(row.transaction_id)
            if newer is not None and newer.state != "committed":
                raise
            return newer if newer is not None else msgspec.structs.replace(row, state="committed")

    async def topics_stand(self, staged: Sequence[StagedRecords]) -> bool:
        """Whether every topic is the one that its records were routed for. Raises ``BackOff``."""
        for name, topic_id in sorted({(request.topic, request.topic_id) for request in staged}):
            topic = await self._topics.fresh(name, self._clock.monotonic_ms())
            if topic.state.topic_id != topic_id:
                return False
        return True

    def clean_behind(self, transaction_id: str) -> None:
        """Delete what is staged behind the answer, as well as that goes."""
        task = asyncio.create_task(self.clean(transaction_id))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def drain(self) -> None:
        """Return when what is deleted behind answers is."""
        while self._cleaning:
            await asyncio.wait(set(self._cleaning))

    async def clean(self, transaction_id: str) -> None:
        """Delete what is staged, as well as that goes."""
        try:
            await self._staging.delete(transaction_id)
        except BackOff as problem:
            _log.warning("staged records of %s are left to the collector: %s", transaction_id, problem.detail)

    async def _ended(self, row: TransactionRow, staged: Staged) -> TransactionRow:
        applied = await asyncio.gather(
            *(self._applied(row, requests) for requests in _by_topic(staged.records)), return_exceptions=True
        )
        places: list[Place] = []
        for found in applied:
            if isinstance(found, BaseException):
                raise found
            places += found
        # Behind the records, so that a reader of the offsets finds the records, too, or brings the transaction to its end.
        await self._group_offsets.settle(row.transaction_id, groups_of(staged.offsets), is_committed=True)
        done = await self._recorded(row, sorted(places, key=lambda place: (place.topic, place.partition)))
        self.clean_behind(row.transaction_id)
        return done

    async def _recorded(self, row: TransactionRow, places: Sequence[Place]) -> TransactionRow:
        try:
            return await self._decider.decide(Finish(transaction_id=row.transaction_id, places=tuple(places)))
        except TidelogError as error:
            if error.code is not ErrorCode.UNKNOWN_TRANSACTION:
                raise
            # Somebody else finished it, and nobody can ask for it any more; the places are the same for everybody.
            return msgspec.structs.replace(row, state="committed", places=tuple(places))

    async def _applied(self, row: TransactionRow, requests: Sequence[StagedRecords]) -> list[Place]:
        """Where the topic has the records. Those of a topic that was deleted since the decision are gone with it."""
        name = requests[0].topic
        floor = self._decider.log.state.floor
        try:
            topic = await self._topics.fresh(name, self._clock.monotonic_ms())
            topic.existing()
            # Right before the writer takes it: so the times of what this gateway appends don't go back.
            batch = transaction_batch(row, requests, floor, self._clock.now_ms())
            acknowledged = await _appended(topic, batch)
        except (UnknownTopic, TopicReplaced):
            return []
        places = acknowledged.places if isinstance(acknowledged, Duplicate) else acknowledged
        return [Place(name, place.partition, place.base_offset, place.count) for place in places]


async def _appended(topic: OpenTopic, batch: Batch) -> Acknowledgement:
    """What became of the batch. Raises ``OutcomeUnknown`` when that takes too long; it may go on all the same."""
    settled = topic.writer.submit(batch, None).settled
    wait_ms = topic.state.config.integer("flush.ms") + PRODUCE_WAIT_MS_MAX + COMMIT_WAIT_MS_MAX
    if not (await asyncio.wait((settled,), timeout=wait_ms / 1000))[0]:
        raise OutcomeUnknown(f"The commit of topic {topic.name!r} takes too long.")
    return settled.result()


def _by_topic(staged: Sequence[StagedRecords]) -> list[list[StagedRecords]]:
    """The requests of each topic that have records, in order."""
    topics: dict[str, list[StagedRecords]] = {}
    for request in staged:
        if request.records.num_rows:
            topics.setdefault(request.topic, []).append(request)
    return list(topics.values())
