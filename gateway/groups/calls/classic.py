"""Requests of Kafka's classic protocol to the group's coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.groups.calls import classic_members
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.classic.member import ClassicGeneration, ClassicJoinRequest
from gateway.groups.membership.coordinator import Coordinated, Coordinator
from gateway.groups.membership.live_group import LiveGroup
from gateway.groups.membership.member_ids import MemberIds
from log_format.errors import TidelogError
from log_format.groups.changes import fenced_member_error, unknown_member_error
from log_format.groups.row import MemberRow, belongs_to_another


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The member that asks, and the owner of its id."""

    member_id: str
    instance_id: str | None
    owner: str


class ClassicCalls:
    """Requests of members that speak the classic protocol. Used on the event loop only."""

    def __init__(self, coordinator: Coordinator, member_ids: MemberIds) -> None:
        self._coordinator = coordinator
        self._member_ids = member_ids

    async def join(self, name: str, wish: ClassicJoinRequest, owner: str) -> ClassicGeneration | str:
        """Let a member join; return the generation that took it in, or the id with which its client shall join.

        Raises ``RequestRefused``, ``GroupFull``, ``BackOff``, ``OutcomeUnknown``.
        """
        if wish.member_id:
            await self._member_ids.check(name, wish.member_id, owner)
        new_id = "" if wish.member_id else await self._member_ids.issue(name, owner)

        async def joined() -> ClassicGeneration | None:
            group = await self._coordinator.for_classic(name)
            if isinstance(group, ClassicGroup):
                return await group.join(wish, new_id)
            return await classic_members.join(group, wish, new_id)

        return await self._coordinator.retry_if_deleted(name, joined) or new_id

    async def sync(
        self,
        name: str,
        speaker: Sender,
        generation: int,
        protocol: tuple[str, str] | None,
        assignments: Mapping[str, bytes],
    ) -> bytes:
        """Return the member's assignment.

        Args:
            protocol: type and name of the protocol as the member knows them; None: not checked.
            assignments: assignments by member id, from the leader; empty from other members.

        Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``.
        """
        group = await self._of(name, speaker)
        if isinstance(group, LiveGroup):
            return classic_members.sync(group, speaker.member_id, speaker.instance_id, generation, protocol)
        return await group.sync(speaker.member_id, speaker.instance_id, generation, protocol, assignments)

    async def heartbeat(self, name: str, speaker: Sender, generation: int) -> None:
        """Take a member's heartbeat. Raises what ``sync`` raises."""
        group = await self._of(name, speaker)
        if isinstance(group, LiveGroup):
            await classic_members.heartbeat(group, speaker.member_id, speaker.instance_id, generation)
        else:
            group.heartbeat(speaker.member_id, speaker.instance_id, generation)

    async def check(self, name: str, speaker: Sender, generation: int) -> None:
        """Raise what ``sync`` raises if the member may not commit."""
        group = await self._of(name, speaker)
        if isinstance(group, LiveGroup):
            classic_members.member_of(group, speaker.member_id, speaker.instance_id)
        else:
            group.member(speaker.member_id, speaker.instance_id)
        group.check_commit(speaker.member_id, generation)

    async def leave(
        self, name: str, leaving: Sequence[tuple[str, str | None]], owner: str
    ) -> list[TidelogError | None]:
        """Take members out, by id or by instance id alone; return the refusal of each. The owner ``NOBODY`` may take out all.

        Raises ``BackOff``, ``OutcomeUnknown``.
        """
        group = await self._coordinator.claimed(name)
        if not isinstance(group, ClassicGroup):
            return await _remove(group, leaving, owner)
        refusals: list[TidelogError | None] = []
        for member_id, instance_id in leaving:
            try:
                await self._member_ids.check(name, member_id, owner)
                present = None if member_id else group.members.of_instance(instance_id)
                is_own = present is None or not belongs_to_another(present.wish.reader, owner)
                refusals.append(None if is_own else unknown_member_error(name, member_id))
            except TidelogError as refusal:
                refusals.append(refusal)
        allowed = [one for one, refusal in zip(leaving, refusals, strict=True) if refusal is None]
        left = iter(await group.leave(allowed))
        return [next(left) if refusal is None else refusal for refusal in refusals]

    async def _of(self, name: str, speaker: Sender) -> Coordinated:
        group = await self._coordinator.claimed(name)
        await self._member_ids.check(name, speaker.member_id, speaker.owner)
        return group


async def _remove(group: LiveGroup, leaving: Sequence[tuple[str, str | None]], owner: str) -> list[TidelogError | None]:
    """Take members out to which the gateway assigns partitions; an operator removes static ones this way."""
    members = _Members(
        {one.member_id: one for one in group.row.members},
        {one.instance_id: one for one in group.row.members if one.instance_id is not None},
    )
    found = [_find_leaving(group.name, members, *one, owner) for one in leaving]
    leaves = [one.member_id for one in found if isinstance(one, MemberRow)]
    if leaves:
        await group.leave(leaves)
    return [None if isinstance(one, MemberRow) else one for one in found]


class _Members(NamedTuple):
    """A group's members. Requests name many, and a group has many, so neither is searched for each of the other."""

    by_id: Mapping[str, MemberRow]
    by_instance: Mapping[str, MemberRow]


def _find_leaving(
    group: str, members: _Members, member_id: str, instance_id: str | None, owner: str
) -> MemberRow | TidelogError:
    """Return the member that is named by id, by instance id, or by both; its refusal if there is none."""
    named = None if instance_id is None else members.by_instance.get(instance_id)
    if not member_id:
        is_own = named is not None and not belongs_to_another(named.reader, owner)
        return named if named is not None and is_own else unknown_member_error(group, member_id)
    if named is not None and named.member_id != member_id:
        return fenced_member_error(group, member_id)
    found = members.by_id.get(member_id) if instance_id is None else named
    if found is not None and not belongs_to_another(found.reader, owner):
        return found
    return unknown_member_error(group, member_id)
