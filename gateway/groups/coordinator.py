"""The groups that this gateway coordinates: claimed by a row in the table, kept in memory while no other claims them.

1. A claim raises the group's epoch, so whoever coordinated it before can write nothing about it any more.
2. An answer from memory is given only while the table's head was seen within ``LEASE_MS``. Who claims a group gives its members
   that much more time than their sessions have, so that two coordinators never both speak for one member's place.
3. A session runs only while this process does.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

from gateway.call import unasked
from gateway.cluster.ownership import Ownership
from gateway.engine.shared_commits import SharedCommits
from gateway.groups.bounds import (
    ADOPTION_MS,
    EXPIRY_MS,
    GROUPS_AT_ONCE,
    GROUPS_MAX,
    LEASE_MS,
    OFFSETS_RETENTION_MS,
    PAUSE_MS_MIN,
    TICK_MS,
    TOPICS_WATCHED_MS,
)
from gateway.groups.live_group import Admit, LiveGroup
from gateway.groups.metrics import GroupMetrics
from gateway.groups.subscription import SubscribedTopics
from gateway.problem import overloaded
from gateway.supervised import supervised
from log_format.clock import Clock
from log_format.errors import OutcomeUnknown, TidelogError
from log_format.groups.changes import Claim, CoordinatorFenced, Delete, GroupDecision, Regroup
from log_format.groups.row import GroupRow
from log_format.groups.state import Group, GroupsState

GroupCommits = SharedCommits[GroupsState, GroupDecision, Group]
"""A gateway's hand on ``system/consumer_offsets``."""

ItemT = TypeVar("ItemT")

_log = logging.getLogger("gateway.groups")


class Coordinator:
    """``coordinator_id``: names this very process."""

    def __init__(
        self,
        commits: GroupCommits,
        subscribed: SubscribedTopics,
        *,
        ownership: Ownership,
        clock: Clock,
        coordinator_id: str,
        metrics: GroupMetrics,
    ) -> None:
        self.admit: Admit = lambda _growth_bytes: None
        self._commits = commits
        self._subscribed = subscribed
        self._ownership = ownership
        self._clock = clock
        self._coordinator_id = coordinator_id
        self._metrics = metrics
        metrics.groups.set_function(lambda: len(self._groups))
        metrics.members.set_function(lambda: sum(len(group.sessions) for group in self))
        self._groups: dict[str, LiveGroup] = {}
        self._claims: dict[str, asyncio.Task[LiveGroup]] = {}
        self._deadlines: list[tuple[int, str]] = []
        self._expected: dict[str, int] = {}
        """The deadline that counts of each group in ``_deadlines``; others there are passed over."""
        self._ticked_ms = clock.monotonic_ms()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """From now on end sessions, look for new topics, adopt groups that lost their coordinator, forget unused ones."""
        for work, pause_ms, what in (
            (self._watch_topics, TOPICS_WATCHED_MS, "the watch for topics of groups"),
            (self._adopt, ADOPTION_MS, "the adoption of groups"),
            (self._forget_unused, EXPIRY_MS, "forgetting unused groups"),
        ):
            self._keep(supervised(partial(self._after, pause_ms, work), what))
        self._ticked_ms = self._clock.monotonic_ms()
        self._keep(supervised(self._tick, "the end of sessions"))

    async def drain(self) -> None:
        """Stop all that; end the polls."""
        for task in list(self._tasks):
            task.cancel()
        self.wake_all()

    def wake_all(self) -> None:
        """Let every poll look again."""
        for group in self._groups.values():
            group.wake_all()

    def __iter__(self) -> Iterator[LiveGroup]:
        return iter(list(self._groups.values()))

    def known(self, name: str) -> LiveGroup | None:
        """The group if it is coordinated here, as far as that is known."""
        group = self._groups.get(name)
        return None if group is None or group.is_lost else group

    async def live(self, name: str) -> LiveGroup:
        """The group, claimed if need be. Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``."""
        state = await self._commits.recent(LEASE_MS)
        group = self._groups.get(name)
        if group is not None and not group.is_lost and state.group(name).epoch == group.row.epoch:
            return group
        if name not in state.groups and len(state.groups) >= GROUPS_MAX:
            raise overloaded(f"There are {GROUPS_MAX} consumer groups already.")
        claim = self._claims.get(name)
        if claim is None:
            claim = self._claims[name] = asyncio.create_task(self._claim(name))
            claim.add_done_callback(lambda done: self._claimed(name, done))
        return await asyncio.shield(claim)

    async def still(self, group: LiveGroup) -> bool:
        """Whether the group is coordinated here, as of at most ``LEASE_MS`` ago. Raises ``BackOff``."""
        state = await self._commits.recent(LEASE_MS)
        return not group.is_lost and state.group(group.name).epoch == group.row.epoch

    async def is_anothers(self, name: str) -> bool:
        """Whether another gateway has claimed the group last. Raises ``BackOff``."""
        row = (await self._commits.fresh()).group(name).row
        return row is not None and row.coordinator != self._coordinator_id

    def _expect(self, group: LiveGroup) -> None:
        """Look at the group's sessions when the first of them may end."""
        deadline_ms = group.next_deadline_ms(self._clock.monotonic_ms())
        expected_ms = self._expected.get(group.name)
        if deadline_ms is not None and (expected_ms is None or deadline_ms < expected_ms):
            self._expected[group.name] = deadline_ms
            heapq.heappush(self._deadlines, (deadline_ms, group.name))

    async def delete(self, name: str) -> None:
        """End a group without members. Raises ``RequestRefused`` (``GROUP_NOT_EMPTY``), and as ``live``."""
        group = await self.live(name)
        await self._commits.decide(Delete(group=name, epoch=group.row.epoch))
        self._groups.pop(name, None)

    async def _claim(self, name: str) -> LiveGroup:
        with unasked():
            claimed = await self._commits.decide(Claim(group=name, coordinator=self._coordinator_id))
        row = claimed.row
        if row is None or row.coordinator != self._coordinator_id:
            raise CoordinatorFenced(name)
        group = LiveGroup(
            row,
            write=self._write,
            resolve=self._subscribed.resolve,
            expect=self._expect,
            clock=self._clock,
            admit=self.admit,
        )
        before = self._groups.get(name)
        self._groups[name] = group
        self._expect(group)
        if before is not None:
            before.is_lost = True
            before.wake_all()
        return group

    def _claimed(self, name: str, done: asyncio.Task[LiveGroup]) -> None:
        del self._claims[name]
        if not done.cancelled():
            done.exception()  # whoever waited may be gone

    async def _write(self, row: GroupRow) -> GroupRow:
        written = (await self._commits.decide(Regroup(row=row))).row
        assert written is not None
        known = self._groups.get(row.group)
        if known is not None and written.generation != known.row.generation:
            self._metrics.rebalances.inc()
            _log.info("group %s: generation %d, %d members", row.group, row.generation, len(row.members))
        return written

    # Beside the requests

    async def _tick(self) -> None:
        await asyncio.sleep(TICK_MS / 1000)
        now_ms = self._clock.monotonic_ms()
        late_ms, self._ticked_ms = now_ms - self._ticked_ms - TICK_MS, now_ms
        if late_ms >= PAUSE_MS_MIN:
            for group in self:
                group.stood_still(late_ms)
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            deadline_ms, name = heapq.heappop(self._deadlines)
            if self._expected.get(name) != deadline_ms:
                continue
            del self._expected[name]
            due = self._groups.get(name)
            if due is not None and due.has_ended_sessions(now_ms):
                self._keep(self._end_sessions(due))
            elif due is not None:
                self._expect(due)

    async def _end_sessions(self, group: LiveGroup) -> None:
        try:
            if not await self.still(group):
                # Its members are another's by now, or will be: taking them from there would start their sessions anew.
                self._forget(group)
                return
            ended = await group.end_sessions()
            if ended:
                _log.info("group %s: sessions ended: %s", group.name, ", ".join(ended))
                self._metrics.ended_sessions.inc(len(ended))
        except Exception as problem:  # noqa: BLE001 - the top of this work: nobody else would look at these sessions again
            defect = None if isinstance(problem, TidelogError) else problem
            _log.warning("group %s: sessions that ended stay for now: %s", group.name, problem, exc_info=defect)
            await asyncio.sleep(LEASE_MS / 1000)
        if self._groups.get(group.name) is group:
            self._expect(group)

    def _forget(self, group: LiveGroup) -> None:
        if self._groups.get(group.name) is group:
            del self._groups[group.name]
            self._expected.pop(group.name, None)
        group.is_lost = True
        group.wake_all()

    async def _watch_topics(self) -> None:
        groups = [group for group in self if group.sessions and not group.is_lost]
        seen = await self._subscribed.look(group.row.members for group in groups)
        # One that took in members meanwhile may seem to be: it looks once more, and writes nothing.
        behind = [group for group in groups if group.is_behind(seen)]
        await _each(behind, LiveGroup.topics_changed)

    async def _adopt(self) -> None:
        if not self._ownership.adopts_groups:
            return
        state = await self._commits.recent(ADOPTION_MS)
        lost = []
        for name, group in state.groups.items():
            if group.row is None or not group.row.members or not self._ownership.coordinates(name):
                continue
            mine = self._groups.get(name)
            if mine is None or mine.is_lost or mine.row.epoch != group.epoch:
                lost.append(name)
        if lost:
            _log.info("%d groups are coordinated here from now on", len(lost))
        await _each(lost, self.live)

    async def _forget_unused(self) -> None:
        state = await self._commits.recent(EXPIRY_MS)
        for group in self:
            if group.is_idle or state.group(group.name).epoch > group.row.epoch:
                self._forget(group)
        before_ms = self._clock.now_ms() - OFFSETS_RETENTION_MS
        unused = []
        for name, one in state.groups.items():
            has_members = one.row is not None and one.row.members
            if (
                not has_members
                and not one.pending
                and one.changed_at_ms < before_ms
                and self._ownership.coordinates(name)
            ):
                unused.append(name)
        if unused:
            _log.info("%d groups were unused for %d ms: they are deleted", len(unused), OFFSETS_RETENTION_MS)
        await _each(unused, self.delete)

    async def _after(self, pause_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(pause_ms / 1000)
        try:
            await work()
        except TidelogError as problem:
            level = logging.WARNING if isinstance(problem, OutcomeUnknown) else logging.INFO
            _log.log(level, "work on groups is put off: %s", problem.detail)

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("work on groups failed", exc_info=error)


async def _each(items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[object]]) -> None:
    """Do it for all of them, so many side by side that they share commits; what fails is left for the next time."""
    turns = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def one(item: ItemT) -> None:
        async with turns:
            try:
                await work(item)
            except TidelogError as problem:
                _log.info("work on a group is put off: %s", problem.detail)

    await asyncio.gather(*(one(item) for item in items))
