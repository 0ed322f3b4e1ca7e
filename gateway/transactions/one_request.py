"""A transaction that is one request (``POST /v1/records``): staged, prepared and decided within it.

1. There is nothing to abort: an undecided transaction was never begun. Its staged objects are deleted.
2. The decision judges its producer's sequence at the table's head. Before the decision requests are only ordered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.applied_transactions.staging import Staged, StagedListing
from gateway.call import detached_from_call, second_part
from gateway.engine.bounds import SEQUENCE_AHEAD_MAX, SEQUENCE_WAIT_MS_MAX
from gateway.engine.producer_ids import ProducerIds
from gateway.transactions.preparing import TransactionPreparer
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, TidelogError
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.topic.producers import ProducerStamp
from log_format.transactions.changes import BeginAndCommit, judge_request, unfinished_previous_request
from log_format.transactions.damaged_transactions import require_undamaged
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_offsets import StagedOffsets
from log_format.transactions.staged_records import StagedRecords

_RETRY_MS = 20
_GRACE_MS = 1_000
"""Time for which the preceding request is left to the gateway that decided it."""


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The transaction of a request. ``is_duplicate``: an earlier attempt of the same request had decided it."""

    row: TransactionRow
    is_duplicate: bool


class OneRequestTransactions:
    """Transactions that are one request. Used on the event loop only."""

    def __init__(
        self,
        finishing: FinishingParts,
        preparing: TransactionPreparer,
        producer_ids: ProducerIds,
        *,
        clock: Clock,
    ) -> None:
        self._table = finishing.transactions
        self._staging = finishing.staging
        self._finisher = finishing.finisher
        self._preparing = preparing
        self._producer_ids = producer_ids
        self._clock = clock

    async def commit(
        self, records: Sequence[StagedRecords], offsets: Sequence[StagedOffsets], stamp: ProducerStamp | None
    ) -> RequestOutcome:
        """Commit all records and offsets, or nothing.

        Raises ``RequestRefused`` (sequences, the rules of groups, topics that are gone), ``BackOff``, ``OutcomeUnknown``.
        """
        with second_part():
            return await self._commit(records, offsets, stamp)

    async def _commit(
        self, records: Sequence[StagedRecords], offsets: Sequence[StagedOffsets], stamp: ProducerStamp | None
    ) -> RequestOutcome:
        if stamp is not None:
            earlier = await self._wait_for_predecessors(stamp)
            if earlier is not None:
                return RequestOutcome(require_undamaged(await self._finisher.finish(earlier)), is_duplicate=True)
        for one in offsets:
            await self._preparing.check(one)
        transaction_id = await self._producer_ids.issue(TRANSACTIONAL)
        try:
            staged = await self._prepare(transaction_id, records, offsets)
            row = await self._table.decide(
                BeginAndCommit(transaction_id=transaction_id, staged=staged.names, stamp=stamp)
            )
        except OutcomeUnknown:
            raise  # The transaction may be decided: staged objects stay until that is known.
        except TidelogError:
            await self._drop(transaction_id, offsets)
            raise
        if row.transaction_id != transaction_id:
            await self._drop(transaction_id, offsets)
            return RequestOutcome(require_undamaged(await self._finisher.finish(row)), is_duplicate=True)
        return RequestOutcome(await self._finisher.finish(row, staged), is_duplicate=False)

    async def _prepare(
        self, transaction_id: str, records: Sequence[StagedRecords], offsets: Sequence[StagedOffsets]
    ) -> Staged:
        """Stage everything, with pending offsets. Raises ``RequestRefused``, ``BackOff``: nothing is decided yet."""
        try:
            staged = await self._stage(transaction_id, records, offsets)
            if not await self._preparing.are_topics_current(records):
                raise BackOff("A topic was made anew while records for it were on their way.")
            await self._preparing.prepare(transaction_id, offsets)
        except OutcomeUnknown as problem:
            raise BackOff(problem.detail) from problem
        return staged

    async def _wait_for_predecessors(self, stamp: ProducerStamp) -> TransactionRow | None:
        """Wait until the request's predecessors are decided and finished; return its outcome if it is in the log already."""
        deadline_ms = self._clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
        state = await self._table.fresh()
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
            before = unfinished_previous_request(state, stamp)
            if before is not None and self._clock.now_ms() - before.recorded_at_ms > _GRACE_MS:
                # Unknown outcome of the other request: this one waits on, or is late.
                with detached_from_call(), contextlib.suppress(OutcomeUnknown):
                    await self._finisher.finish(before)
            await asyncio.sleep(_RETRY_MS / 1000)
            state = await self._table.recent(_RETRY_MS * 10)

    async def _stage(
        self, transaction_id: str, records: Sequence[StagedRecords], offsets: Sequence[StagedOffsets]
    ) -> Staged:
        """Put all staged objects into the store."""
        self._staging.check_room(StagedListing((), 0, 0), sum(one.records.nbytes for one in records))
        puts = [
            self._staging.put(transaction_id, StagedListing((), 0, number), one, None)
            for number, one in enumerate(records)
        ]
        puts += [
            self._staging.put_offsets(transaction_id, StagedListing((), 0, number), one)
            for number, one in enumerate(offsets, len(records))
        ]
        names = await _gather_puts(puts)
        return Staged(dict(zip(names, records, strict=False)), dict(zip(names[len(records) :], offsets, strict=True)))

    async def _drop(self, transaction_id: str, offsets: Sequence[StagedOffsets]) -> None:
        """Remove all traces of an undecided transaction."""
        try:
            await self._preparing.drop(transaction_id, offsets)
        except TidelogError:
            return  # The next reader that finds pending offsets settles them.
        await self._staging.clean(transaction_id)


async def _gather_puts(puts: Sequence[Awaitable[str]]) -> list[str]:
    """Return the names, once every put has ended. Raises an error of one of them."""
    names = []
    for one in await asyncio.gather(*puts, return_exceptions=True):
        if isinstance(one, BaseException):
            raise one
        names.append(one)
    return names
