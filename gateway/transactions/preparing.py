"""The conditions of a commit: the transaction's topics still exist, and its groups accept its offsets.

The offsets are judged as any commit of the group, and made pending (``gateway.finishing.pending_offsets``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.engine.registry import TopicRegistry
from gateway.groups.offsets.committed import Committed, NextOffset
from gateway.tables.groups import GroupsTable
from log_format.clock import Clock
from log_format.errors import BackOff, OutcomeUnknown, RequestRefused
from log_format.groups.changes import judge_commit, stale
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from log_format.transactions.staged_records import StagedRecords


class Preparing:
    """Belongs to the event loop."""

    def __init__(self, committed: Committed, groups: GroupsTable, topics: TopicRegistry, *, clock: Clock) -> None:
        self._committed = committed
        self._groups = groups
        self._topics = topics
        self._clock = clock

    async def topics_stand(self, staged: Iterable[StagedRecords]) -> bool:
        """Whether every topic is the incarnation that its records were routed for. Raises ``BackOff``."""
        for name, topic_id in sorted({(request.topic, request.topic_id) for request in staged}):
            topic = await self._topics.fresh(name, self._clock.monotonic_ms())
            if topic.state.topic_id != topic_id:
                return False
        return True

    async def check(self, staged: StagedOffsets) -> None:
        """Raise ``RequestRefused`` where the group would refuse these now; ``BackOff``."""
        offsets = _next_offsets(staged.offsets)
        await self._committed.rows(staged.group, offsets, staged.member_id, staged.generation)
        group = (await self._groups.fresh()).group(staged.group)
        keys = [one.key for one in offsets]
        refusal = judge_commit(staged.group, group, keys, staged.member_id, staged.generation)
        if refusal is not None:
            raise refusal

    async def prepare(self, transaction_id: str, staged: Iterable[StagedOffsets]) -> None:
        """Make them pending. Raises ``RequestRefused`` (409) where a group refuses them; ``BackOff``, ``OutcomeUnknown``."""
        for number, one in enumerate(_by_group(staged)):
            try:
                await self._committed.commit(
                    one.group,
                    _next_offsets(one.offsets),
                    one.member_id,
                    one.generation,
                    transaction_id=transaction_id,
                )
            except RequestRefused as refusal:
                if refusal.status == 409:
                    raise
                raise stale(one.group, refusal.detail.rstrip(".")) from refusal
            except BackOff as problem:
                if number:
                    raise OutcomeUnknown(f"Offsets of some groups are pending: {problem.detail}") from problem
                raise

    async def drop(self, transaction_id: str, staged: Iterable[StagedOffsets]) -> None:
        """Drop what is pending: the transaction is undecided or aborted. Raises ``BackOff``, ``OutcomeUnknown``."""
        await self._groups.settle(transaction_id, {one.group for one in staged}, is_committed=False)


def _by_group(staged: Iterable[StagedOffsets]) -> list[StagedOffsets]:
    """One for each group: the newest member and generation, and the newest offset of each partition."""
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
        NextOffset(topic=one.topic, partition=one.partition, offset=one.offset, metadata=one.metadata)
        for one in offsets
    ]
