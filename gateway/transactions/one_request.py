"""A transaction that is one request (``POST /v1/records``): staged, prepared and decided in one go.

1. There is nothing to abort: what is not decided was never begun. What was staged for it is deleted.
2. Its producer's sequence is judged by the decision, against the head; before it only the order is seen to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gateway.call import second_part, unasked
from gateway.engine.bounds import SEQUENCE_AHEAD_MAX, SEQUENCE_WAIT_MS_MAX
from gateway.engine.producer_ids import ProducerIds
from gateway.transactions.decider import Decider
from gateway.transactions.finishing import Finishing
from gateway.transactions.group_offsets import GroupOffsets, groups_of
from gateway.transactions.staging import Listed, Staged, Staging
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, TidelogError
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.topic.producers import ProducerStamp
from log_format.transactions.changes import CommitAtOnce, judge_request, request_before
from log_format.transactions.row import TransactionRow

_AGAIN_MS = 20
_LEFT_ALONE_MS = 1_000
"""How long the request before is left to the gateway that decided it."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a request, and whether an earlier try of it had done it already."""

    row: TransactionRow
    is_duplicate: bool


class OneRequest:
    """Belongs to the event loop."""

    def __init__(
        self,
        finishing: Finishing,
        decider: Decider,
        staging: Staging,
        group_offsets: GroupOffsets,
        producer_ids: ProducerIds,
        *,
        clock: Clock,
    ) -> None:
        self._finishing = finishing
        self._decider = decider
        self._staging = staging
        self._group_offsets = group_offsets
        self._producer_ids = producer_ids
        self._clock = clock

    async def commit(self, staged: Staged, stamp: ProducerStamp | None) -> Done:
        """Everything that is staged appears, or nothing.

        Raises ``RequestRefused`` (sequences, the rules of groups, topics that are gone), ``BackOff``, ``OutcomeUnknown``.
        """
        with second_part():
            return await self._commit(staged, stamp)

    async def _commit(self, staged: Staged, stamp: ProducerStamp | None) -> Done:
        if stamp is not None:
            earlier = await self._in_turn(stamp)
            if earlier is not None:
                return Done(await self._finishing.finished(earlier, None), is_duplicate=True)
        for offsets in staged.offsets:
            await self._group_offsets.check(offsets)
        transaction_id = await self._producer_ids.issue(TRANSACTIONAL)
        groups = groups_of(staged.offsets)
        try:
            names = await self._prepared(transaction_id, staged)
            row = await self._decider.decide(CommitAtOnce(transaction_id=transaction_id, staged=names, stamp=stamp))
        except OutcomeUnknown:
            raise  # it may be decided: what is staged for it stays until that is known
        except TidelogError:
            await self._dropped(transaction_id, groups)
            raise
        if row.transaction_id != transaction_id:
            await self._dropped(transaction_id, groups)
            return Done(await self._finishing.finished(row, None), is_duplicate=True)
        return Done(await self._finishing.finished(row, staged), is_duplicate=False)

    async def _prepared(self, transaction_id: str, staged: Staged) -> tuple[str, ...]:
        """Stage everything, its offsets pending; the names. Raises ``RequestRefused``, ``BackOff``: nothing is decided yet."""
        try:
            names = await self._stage(transaction_id, staged)
            if not await self._finishing.topics_stand(staged.records):
                raise BackOff("A topic was made anew while records for it were on their way.")
            await self._group_offsets.prepare(transaction_id, staged.offsets)
        except OutcomeUnknown as problem:
            raise BackOff(problem.detail) from problem
        return names

    async def _in_turn(self, stamp: ProducerStamp) -> TransactionRow | None:
        """Return when it is the request's turn; what it became if it is in the log already."""
        deadline_ms = self._clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
        state = await self._decider.fresh()
        while True:
            verdict = judge_request(state, stamp, self._clock.now_ms())
            if verdict is None or isinstance(verdict, TransactionRow):
                return verdict
            ahead = stamp.sequence - state.requests.expected_sequence(stamp.producer_id, stamp.epoch)
            is_waiting = isinstance(verdict, BackOff) or (
                verdict.code is ErrorCode.SEQUENCE_OUT_OF_ORDER and 0 < ahead <= SEQUENCE_AHEAD_MAX
            )
            if not is_waiting or self._clock.monotonic_ms() >= deadline_ms:
                raise verdict
            before = request_before(state, stamp)
            if before is not None and self._clock.now_ms() - before.recorded_at_ms > _LEFT_ALONE_MS:
                with unasked(), contextlib.suppress(OutcomeUnknown):  # of that one; this one waits on, or is late
                    await self._finishing.finished(before, None)
            await asyncio.sleep(_AGAIN_MS / 1000)
            state = await self._decider.recent(_AGAIN_MS * 10)

    async def _stage(self, transaction_id: str, staged: Staged) -> tuple[str, ...]:
        """Put everything beside the topics; the names, in order."""
        nothing = Listed((), 0, 0)
        self._staging.check_room(nothing, sum(records.records.nbytes for records in staged.records))
        puts = [
            self._staging.put(transaction_id, Listed((), 0, number), records, None)
            for number, records in enumerate(staged.records)
        ]
        puts += [
            self._staging.put_offsets(transaction_id, Listed((), 0, len(staged.records) + number), offsets)
            for number, offsets in enumerate(staged.offsets)
        ]
        return tuple(sorted(await _all(puts)))

    async def _dropped(self, transaction_id: str, groups: Sequence[str]) -> None:
        """Leave nothing of a transaction that was not decided."""
        try:
            await self._group_offsets.settle(transaction_id, groups, is_committed=False)
        except TidelogError:
            return  # whoever finds them pending will
        await self._finishing.clean(transaction_id)


async def _all(puts: Sequence[Awaitable[str]]) -> list[str]:
    """The names, once every put has ended. Raises what one of them raised."""
    names = []
    for one in await asyncio.gather(*puts, return_exceptions=True):
        if isinstance(one, BaseException):
            raise one
        names.append(one)
    return names
