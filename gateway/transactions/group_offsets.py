"""A group's offsets inside transactions: staged, prepared before the decision, settled after it.

1. Before a transaction is decided its offsets are pending rows of ``system/consumer_offsets``, judged as any commit of the group.
2. Once it is decided they become the group's, or are dropped; whoever finds them pending sees to that.
3. A transaction whose offsets are pending but which nobody decides is aborted, so that the group's readers need not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gateway.call import unasked
from gateway.groups.committed import Committed, NextOffset
from gateway.groups.coordinator import GroupCommits
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.groups.changes import Settle, judge_commit, stale
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets

PENDING_MS_MAX: Final = 5_000
"""How long a reader of offsets waits for the decision before it aborts the transaction: a commit takes milliseconds."""
_AGAIN_MS: Final = 50

Finish = Callable[[str, bool], Awaitable[bool | None]]
"""Whether a transaction is committed (then it is brought to its end); None: it is open. The flag: abort it if it is."""


class GroupOffsets:
    """Belongs to the event loop. ``finish`` has to be set before it is used."""

    def __init__(self, committed: Committed, commits: GroupCommits, *, clock: Clock) -> None:
        self.finish: Finish = _unset
        self._committed = committed
        self._commits = commits
        self._clock = clock
        committed.settle = self.settle_group

    async def check(self, staged: StagedOffsets) -> None:
        """Raise ``RequestRefused`` where the group would refuse these now; ``BackOff``."""
        offsets = _next_offsets(staged.offsets)
        await self._committed.rows(staged.group, offsets, staged.member_id, staged.generation)
        group = (await self._commits.fresh()).group(staged.group)
        keys = [one.key for one in offsets]
        refusal = judge_commit(staged.group, group, keys, staged.member_id, staged.generation)
        if refusal is not None:
            raise refusal

    async def prepare(self, transaction_id: str, staged: Sequence[StagedOffsets]) -> None:
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

    async def settle(self, transaction_id: str, groups: Sequence[str], *, is_committed: bool) -> None:
        """Make what is pending the groups', or drop it. Idempotent. Raises ``BackOff``, ``OutcomeUnknown``."""
        with unasked():  # what was asked for is the transaction's decision
            await asyncio.gather(
                *(
                    self._commits.decide(Settle(group=group, transaction_id=transaction_id, is_committed=is_committed))
                    for group in groups
                )
            )

    async def sweep(self, age_ms_min: int) -> None:
        """Settle what is pending for so long already. Raises ``BackOff``, ``OutcomeUnknown``."""
        before_ms = self._clock.now_ms() - age_ms_min
        for name, group in list((await self._commits.fresh()).groups.items()):
            if any(pending.prepared_at_ms < before_ms for pending in group.pending.values()):
                await self.settle_group(name)

    async def settle_group(self, name: str) -> None:
        """Return when nothing that was pending is pending any more. Raises ``BackOff``, ``OutcomeUnknown``."""
        with unasked():
            await self._settle_group(name)

    async def _settle_group(self, name: str) -> None:
        for transaction_id, pending in list(self._commits.log.state.group(name).pending.items()):
            deadline_ms = min(pending.prepared_at_ms, self._clock.now_ms()) + PENDING_MS_MAX
            # What a request that came to nothing had prepared it drops by itself, and no row tells of it.
            while transaction_id in self._commits.log.state.group(name).pending:
                is_late = self._clock.now_ms() >= deadline_ms
                is_committed = await self.finish(transaction_id, is_late)
                if is_committed is not None:
                    # Where it was committed its finish has settled this already; then there is nothing to do.
                    await self.settle(transaction_id, [name], is_committed=is_committed)
                    break
                if is_late:
                    raise BackOff(f"Transaction {transaction_id} with offsets of group {name!r} is not decided yet.")
                await asyncio.sleep(_AGAIN_MS / 1000)
                await self._commits.fresh()


def groups_of(staged: Sequence[StagedOffsets]) -> list[str]:
    """The groups that are named, each once."""
    return list(dict.fromkeys(one.group for one in staged))


def _by_group(staged: Sequence[StagedOffsets]) -> list[StagedOffsets]:
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


async def _unset(_transaction_id: str, _abort: bool) -> bool | None:
    raise TidelogError("Transactions are not there yet.", code=ErrorCode.INTERNAL)
