"""Conditions of a commit: the transaction's topics still exist, its groups accept its offsets, its leases hold.

The offsets are judged like any commit of the group, and made pending (``gateway.applied_transactions.pending_offsets``). Offsets
of Kafka's clients, and settlements of queues, were made pending when they came: they hold while they are pending.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.engine.open_topics import OpenTopics
from gateway.groups.offsets.committed import CommittedOffsets, NextOffset
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused
from log_format.groups.changes import judge_commit, stale_error
from log_format.queues.row import PendingSettlement
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from log_format.transactions.staged_records import StagedRecords
from log_format.transactions.staged_settlements import StagedSettlements


class TransactionPreparer:
    """Checks and preparations before a transaction's decision. Used on the event loop only."""

    def __init__(
        self, committed: CommittedOffsets, finishing: FinishingParts, topics: OpenTopics, *, clock: Clock
    ) -> None:
        self._committed = committed
        self._groups = finishing.groups
        self._queues = finishing.queues
        self._topics = topics
        self._clock = clock

    async def are_topics_current(self, staged: Iterable[StagedRecords]) -> bool:
        """Return whether every topic is the incarnation that its records were routed for. Raises ``BackOff``."""
        for name, topic_id in sorted({(request.topic, request.topic_id) for request in staged}):
            topic = await self._topics.fresh(name, self._clock.monotonic_ms())
            if topic.state.topic_id != topic_id:
                return False
        return True

    async def check(self, staged: StagedOffsets) -> None:
        """Raise ``RequestRefused`` if the group would refuse these offsets now; ``BackOff``."""
        offsets = _next_offsets(staged.offsets)
        await self._committed.rows(staged.group, offsets, staged.member_id, staged.generation)
        group = (await self._groups.fresh()).group(staged.group)
        keys = [one.key for one in offsets]
        refusal = judge_commit(staged.group, group, keys, staged.member_id, staged.generation)
        if refusal is not None:
            raise refusal

    async def prepare(self, transaction_id: str, staged: Iterable[StagedOffsets]) -> None:
        """Make offsets pending. Raises ``RequestRefused`` (409) if a group refuses them; ``BackOff``, ``OutcomeUnknown``."""
        for number, one in enumerate(_by_group(staged)):
            if self._is_pending(transaction_id, one):
                continue
            try:
                await self._committed.commit(
                    one.group,
                    _next_offsets(one.offsets),
                    one.member_id,
                    one.generation,
                    transaction_id=transaction_id,
                )
            except RequestRefused as refusal:
                await self._groups.fresh()  # Another gateway may have made them pending.
                if self._is_pending(transaction_id, one):
                    continue
                if refusal.status == 409:
                    raise
                raise stale_error(one.group, refusal.detail.rstrip(".")) from refusal
            except BackOff as problem:
                if number:
                    raise OutcomeUnknown(f"Offsets of some groups are pending: {problem.detail}") from problem
                raise

    def _is_pending(self, transaction_id: str, staged: StagedOffsets) -> bool:
        """Return whether the group has these offsets as the transaction's, as far as is known here: then they were judged when
        they came."""
        pending = self._groups.state.group(staged.group).pending.get(transaction_id)
        known = {} if pending is None else {row.key: row.offset for row in pending.offsets}
        return all(known.get((one.topic, one.partition)) == one.offset for one in staged.offsets)

    async def holding(self, settlements: Collection[StagedSettlements]) -> Mapping[str, PendingSettlement]:
        """Return the pending settlements that queues hold, by pending id. Raises ``BackOff``."""
        if not settlements:
            return {}
        state = await self._queues.fresh()
        return {
            one.pending_id: pending
            for one in settlements
            if (pending := state.queue(one.queue).pending.get(one.pending_id)) is not None
        }

    async def free(self, transaction_id: str) -> None:
        """Free the records that queues hold for an aborted transaction. Raises ``BackOff``, ``OutcomeUnknown``."""
        await self._queues.fresh()
        await self._queues.conclude(transaction_id, {})

    async def drop(self, transaction_id: str, staged: Iterable[StagedOffsets]) -> None:
        """Drop the pending offsets of an undecided or aborted transaction. Raises ``BackOff``, ``OutcomeUnknown``."""
        await self._groups.settle(transaction_id, {one.group for one in staged}, is_committed=False)


def check_leases(settlements: Iterable[StagedSettlements], held: Container[str]) -> None:
    """Raise ``RequestRefused`` (``LEASE_EXPIRED``) if a queue does not hold the settled records. ``held``: pending ids."""
    for one in settlements:
        if one.pending_id not in held:
            raise RequestRefused(
                f"A lease of queue {one.queue!r} was over before the transaction's commit.",
                code=ErrorCode.LEASE_EXPIRED,
            )


def _by_group(staged: Iterable[StagedOffsets]) -> list[StagedOffsets]:
    """Return one item for each group: the newest member and generation, and the newest offset of each partition."""
    found: dict[str, StagedOffsets] = {}
    for one in staged:
        before = found.get(one.group)
        offsets = {(entry.topic, entry.partition): entry for entry in (before.offsets if before else ())}
        offsets |= {(entry.topic, entry.partition): entry for entry in one.offsets}
        found[one.group] = StagedOffsets(
            group=one.group, member_id=one.member_id, generation=one.generation, offsets=tuple(offsets.values())
        )
    return list(found.values())


def _next_offsets(offsets: Sequence[StagedOffset]) -> list[NextOffset]:
    return [
        NextOffset(
            topic=one.topic,
            partition=one.partition,
            offset=one.offset,
            metadata=one.metadata,
            leader_epoch=one.leader_epoch,
            topic_id=one.topic_id,
        )
        for one in offsets
    ]
