"""The groups that this gateway coordinates: claimed by a row in the table, kept in memory until another gateway claims them.

1. A claim raises the group's epoch, so the previous coordinator can write nothing about the group any more.
2. A coordinator answers from memory only if it saw the table's head within ``lease_ms``. A gateway that claims a group adds
   that time to its members' sessions, so that two coordinators never both decide about one member.
3. A group's members decide of which kind it is: see ``Coordinated``.

Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from gateway.call import detached_from_call
from gateway.groups.bounds import DELETED_TIMES_MAX, GROUPS_MAX
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.classic.hand_over import hand_over, row_to_hand_over
from gateway.groups.classic.stored import ClassicParts
from gateway.groups.membership.live_group import GroupParts, LiveGroup
from gateway.groups.membership.regrouping import RequestedChanges
from gateway.problem import overloaded
from gateway.system_tables.claims import Claims
from log_format.errors import BackOff
from log_format.groups.changes import ClaimGroup, CoordinatorFenced, DeleteGroup

T = TypeVar("T")
GroupT = TypeVar("GroupT", bound="LiveGroup | ClassicGroup")

Coordinated = LiveGroup | ClassicGroup
"""A group of either kind. In a ``LiveGroup`` the gateway assigns partitions to the members, which may include members of Kafka's
classic protocol. In a ``ClassicGroup`` all members speak that protocol, and assign partitions among themselves. A group
becomes the other kind when its members change (KIP-848, online migration)."""


class Coordinator:
    """Claims, and the groups claimed. ``coordinator_id``: id of this process."""

    def __init__(self, parts: GroupParts, *, coordinator_id: str) -> None:
        self._parts = parts
        self._table = parts.table
        self._coordinator_id = coordinator_id
        parts.metrics.groups.set_function(lambda: len(self._groups))
        parts.metrics.members.set_function(lambda: sum(group.member_count for group in self))
        self._groups = Claims(self._claim)
        self._classic_parts = ClassicParts(
            table=parts.table,
            deadlines=parts.deadlines,
            clock=parts.clock,
            metrics=parts.metrics,
            bounds=parts.bounds,
        )

    def wake_all(self) -> None:
        """Wake every waiting poll."""
        for group in self:
            group.wake_all()

    def __iter__(self) -> Iterator[Coordinated]:
        return iter(self._groups)

    async def wait_for_any(self) -> bool:
        """Wait until this gateway has a group in memory; return whether it had to wait."""
        return await self._groups.wait_for_any()

    def coordinated(self, name: str) -> Coordinated | None:
        """Return the group if this gateway has it in memory, lost ones included."""
        return self._groups.get(name)

    def known(self, name: str) -> Coordinated | None:
        """Return the group if it is coordinated here, as far as memory tells."""
        group = self._groups.get(name)
        return None if group is None or group.is_lost else group

    async def live(self, name: str, asked: RequestedChanges | None = None) -> LiveGroup:
        """Return the group for a member that joins as ``asked``, and to which the gateway is to assign partitions.

        A refusal changes nothing: classic members are not disturbed. Raises ``RequestRefused`` (``INCONSISTENT_ASSIGNOR``) if
        its classic members are no plain consumers, what the join would raise, and what ``claimed`` raises.
        """
        group = await self.claimed(name)
        if isinstance(group, LiveGroup):
            return group
        if group.is_idle:
            row = group.row
        else:
            await self._parts.regrouping.next_row(row_to_hand_over(group), [asked or RequestedChanges()], {})
            row = await hand_over(group)
        return self._replace(group, LiveGroup(row, self._parts))

    async def for_classic(self, name: str) -> Coordinated:
        """Return the group for a classic member. Raises what ``claimed`` raises."""
        group = await self.claimed(name)
        if isinstance(group, LiveGroup) and group.is_idle:
            return self._replace(group, ClassicGroup(group.row, self._classic_parts))
        return group

    async def claimed(self, name: str) -> Coordinated:
        """Return the group, claimed if need be. Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``."""
        state = await self._table.recent(self._parts.bounds.lease_ms)
        group = self._groups.get(name)
        if group is not None and not group.is_lost and state.group(name).epoch == group.row.epoch:
            return self._convert_kind(group)
        if name not in state.groups and len(state.groups) >= GROUPS_MAX:
            raise overloaded(f"There are {GROUPS_MAX} consumer groups already, the most.")
        claimed = await self._groups.claim(name)
        # Another call that waited for the claim may have put a group of the other kind in its place.
        return self._convert_kind(self.known(name) or claimed)

    async def is_current(self, group: Coordinated) -> bool:
        """Return whether the group is coordinated here, as of at most ``lease_ms`` ago. Raises ``BackOff``."""
        state = await self._table.recent(self._parts.bounds.lease_ms)
        return not group.is_lost and state.group(group.name).epoch == group.row.epoch

    async def is_claimed_elsewhere(self, name: str) -> bool:
        """Return whether another gateway made the group's last claim. Raises ``BackOff``."""
        row = (await self._table.fresh()).group(name).row
        return row is not None and row.coordinator != self._coordinator_id

    async def retry_if_deleted(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, and repeat it if the group was deleted meanwhile. Raises ``CoordinatorFenced`` if another gateway took the
        group, and ``BackOff`` after ``DELETED_TIMES_MAX`` tries."""
        for _ in range(DELETED_TIMES_MAX):
            try:
                return await work()
            except CoordinatorFenced:
                if await self.is_claimed_elsewhere(name):
                    raise
        raise BackOff(f"Group {name!r} keeps being deleted and recreated.")

    async def delete(self, name: str) -> None:
        """Delete a group without members. Raises ``RequestRefused`` (``GROUP_NOT_EMPTY``), and what ``live`` raises."""
        group = await self.claimed(name)
        await self._table.decide(DeleteGroup(group=name, epoch=group.row.epoch))
        self._groups.remove(name)

    def end_joins(self) -> None:
        """Answer all calls that wait for a rebalance: another gateway coordinates these groups from now on."""
        for group in self:
            if isinstance(group, ClassicGroup):
                self.forget(group)

    def forget(self, group: Coordinated) -> None:
        """Drop the group from memory, and answer the calls that wait for it."""
        if self._groups.remove(group.name, group):
            self._parts.deadlines.forget(group.name)
        group.is_lost = True
        group.wake_all()

    def _convert_kind(self, group: Coordinated) -> Coordinated:
        """Return the group, as a classic one if its last member by another protocol has gone and the rest reads what it was
        assigned.

        Cooperative assignors leave out what a member has by an older generation. The members are told to join again.
        """
        if isinstance(group, LiveGroup) and group.row.is_classic and group.is_quiet and group.state == "Stable":
            return self._replace(group, ClassicGroup(group.row, self._classic_parts))
        return group

    def _replace(self, before: Coordinated, group: GroupT) -> GroupT:
        self.forget(before)
        self._groups.add(group.name, group)
        group.expect_end()
        return group

    async def _claim(self, name: str) -> Coordinated:
        with detached_from_call():
            claimed = await self._table.decide(ClaimGroup(group=name, coordinator=self._coordinator_id))
        row = claimed.row
        if row is None or row.coordinator != self._coordinator_id:
            raise CoordinatorFenced(name)
        is_classic = row.classic is not None and row.members
        group = ClassicGroup(row, self._classic_parts) if is_classic else LiveGroup(row, self._parts)
        before = self._groups.add(name, group)
        group.expect_end()
        if before is not None:
            before.is_lost = True
            before.wake_all()
        return group
