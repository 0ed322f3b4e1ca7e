"""A coordinator's background work: ends sessions, looks for new topics, adopts groups, drops unused ones.

A session runs only while this process does.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging

from gateway.cluster.ownership import Ownership
from gateway.groups.bounds import OFFSETS_RETENTION_MS, PARALLEL_GROUPS_MAX
from gateway.groups.membership.coordinator import Coordinated, Coordinator
from gateway.groups.membership.live_group import GroupParts, LiveGroup
from gateway.system_tables.look_backoff import LookBackoff
from gateway.tasks.supervised import SupervisedTasks
from log_format.errors import TidelogError

_log = logging.getLogger("gateway.groups")


class Upkeep:
    """Background work for groups. Call ``start`` once the gateway serves."""

    def __init__(self, coordinator: Coordinator, parts: GroupParts, *, ownership: Ownership) -> None:
        self._coordinator = coordinator
        self._parts = parts
        self._table = parts.table
        self._bounds = parts.bounds
        self._ownership = ownership
        self._clock = parts.clock
        self._adopting = LookBackoff(parts.bounds.adoption_ms)
        self._ticked_ms = self._clock.monotonic_ms()
        self._works = SupervisedTasks("groups", _log, pause_after_defect_ms=parts.bounds.pause_after_defect_ms)

    def start(self) -> None:
        """Start the work."""
        bounds = self._bounds
        for work, pause_ms, what in (
            (self._watch_topics, bounds.topics_watched_ms, "the watch for topics of groups"),
            (self._adopt, bounds.adoption_ms, "the adoption of groups"),
            (self._forget_unused, bounds.expiry_ms, "forgetting unused groups"),
            (self._table.keep_small, bounds.compaction_ms, "the compaction of offsets"),
        ):
            self._works.repeat(work, what, pause_ms=pause_ms)
        self._ticked_ms = self._clock.monotonic_ms()
        self._works.go_round(self._tick, "the end of sessions")

    def stop(self) -> None:
        """Stop the work."""
        self._works.stop()

    async def _tick(self) -> None:
        if await self._coordinator.wait_for_any():
            self._ticked_ms = self._clock.monotonic_ms()
        await asyncio.sleep(self._bounds.tick_ms / 1000)
        now_ms = self._clock.monotonic_ms()
        late_ms, self._ticked_ms = now_ms - self._ticked_ms - self._bounds.tick_ms, now_ms
        if late_ms >= self._bounds.pause_ms_min:
            for group in self._coordinator:
                group.postpone(late_ms)
        for name in self._parts.deadlines.due(now_ms):
            due = self._coordinator.coordinated(name)
            if due is not None and due.has_ended_sessions(now_ms):
                self._works.begin(self._end_sessions(due))
            elif due is not None:
                due.expect_end()

    async def _end_sessions(self, group: Coordinated) -> None:
        try:
            if not await self._coordinator.is_current(group):
                # Another gateway coordinates the members by now, or will: taking the group from there would start their sessions
                # anew.
                self._coordinator.forget(group)
                return
            ended = await group.end_sessions()
            if ended:
                _log.info("group %s: sessions ended: %s", group.name, ", ".join(ended))
                self._parts.metrics.ended_sessions.inc(len(ended))
        except Exception as problem:  # noqa: BLE001 - the top of this work: no other call looks at these sessions again
            defect = None if isinstance(problem, TidelogError) else problem
            _log.warning("group %s: sessions that ended stay for now: %s", group.name, problem, exc_info=defect)
            await asyncio.sleep(self._bounds.lease_ms / 1000)
        if self._coordinator.coordinated(group.name) is group:
            group.expect_end()

    async def _watch_topics(self) -> None:
        live = [group for group in self._coordinator if isinstance(group, LiveGroup)]
        groups = [group for group in live if group.sessions and not group.is_lost]
        seen = await self._parts.subscribed.look(group.row.members for group in groups)
        # A group that took in members meanwhile may seem behind: it looks once more, and writes nothing.
        behind = [group for group in groups if group.is_behind(seen)]
        await self._works.for_each(behind, LiveGroup.topics_changed, limit=PARALLEL_GROUPS_MAX)

    async def _adopt(self) -> None:
        seen = (self._ownership.view(), self._table.state.version)
        if not self._ownership.adopts_groups or not self._adopting.is_due(self._clock.monotonic_ms(), seen):
            return
        state = await self._table.recent(self._bounds.adoption_ms)
        lost = []
        for name, group in state.groups.items():
            if group.row is None or not group.row.members or not self._ownership.coordinates(name):
                continue
            mine = self._coordinator.coordinated(name)
            if mine is None or mine.is_lost or mine.row.epoch != group.epoch:
                lost.append(name)
        if lost:
            self._adopting.reset()
            _log.info("%d groups are coordinated here from now on", len(lost))
        await self._works.for_each(lost, self._coordinator.claimed, limit=PARALLEL_GROUPS_MAX)

    async def _forget_unused(self) -> None:
        state = await self._table.recent(self._bounds.expiry_ms)
        for group in self._coordinator:
            if group.is_idle or state.group(group.name).epoch > group.row.epoch:
                self._coordinator.forget(group)
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
        await self._works.for_each(unused, self._coordinator.delete, limit=PARALLEL_GROUPS_MAX)
