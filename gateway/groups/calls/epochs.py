"""Kafka's consumer protocol (KIP-848) in the terms of Tidelog's groups: a member's epoch is the generation that it acknowledged.

1. A member that loses partitions keeps its epoch, and is told which partitions are left, until its client says that it reads
   no more than these. Then the member acknowledges the generation: only now the lost partitions go to others.
2. What a client last said, and what it was last told, is kept in memory only. A client that finds another coordinator is told
   everything again.
3. An acknowledgement that frees no partition is kept in memory only, too. The next coordinator takes it from the member
   (``LiveGroup.recall``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.groups.bounds import REBALANCE_TIMEOUT_MS_MAX, SESSION_TIMEOUT_MS_DEFAULT
from gateway.groups.membership.coordinator import Coordinated, Coordinator
from gateway.groups.membership.live_group import LiveGroup
from gateway.groups.membership.regrouping import RequestedChanges
from gateway.groups.membership.session import Session
from gateway.groups.subscription.subscribed_topics import SubscribedTopics
from log_format.errors import ErrorCode, RequestRefused
from log_format.groups.changes import foreign_instance_error, unknown_member_error
from log_format.groups.holdings import common_partitions, partition_keys
from log_format.groups.row import MemberRow, Partitions, Reader

LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""Epochs that a member sends when it leaves; a static one may come back."""
ASSIGNORS: Final = {"uniform": "sticky", "range": "range"}
"""Tidelog's assignors by Kafka's names."""


class FencedEpoch(RequestRefused):
    """The member's epoch is not the one that it was given: it shall give up its partitions, and join again."""


class UnreleasedInstance(RequestRefused):
    """Another member is this instance, and has not said that it leaves."""


class UnknownAssignor(RequestRefused):
    """The assignor is unknown, or not the one that the group's members use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member's heartbeat. None in an optional field means: as in the previous heartbeat."""

    member_id: str
    epoch: int
    instance_id: str | None
    client_id: str | None
    rebalance_timeout_ms: int | None
    topics: tuple[str, ...] | None
    pattern: str | None
    """Pattern of topics; empty: no pattern any more."""
    assignor: str | None
    owned: Partitions | None
    reader: Reader | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    """Answer to a heartbeat. ``assigned`` None: unchanged since the previous answer."""

    epoch: int
    assigned: Partitions | None


class MemberEpochs:
    """Heartbeats of members that speak Kafka's consumer protocol. Used on the event loop only."""

    def __init__(self, coordinator: Coordinator, subscribed: SubscribedTopics) -> None:
        self._coordinator = coordinator
        self._subscribed = subscribed

    async def heartbeat(self, name: str, beat: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        """Take a heartbeat: the member joins, goes on, or leaves, by its epoch.

        Raises ``RequestRefused`` (``INCONSISTENT_ASSIGNOR``, ``UNKNOWN_MEMBER``, ``FENCED_MEMBER``; ``FencedEpoch``,
        ``UnreleasedInstance``, ``UnknownAssignor``), ``BackOff``, ``OutcomeUnknown``.
        """
        if beat.pattern:
            await self._subscribed.check(beat.pattern)
        if beat.epoch == 0:
            return await self._coordinator.retry_if_deleted(name, lambda: self._join(name, beat))
        group = await self._coordinator.claimed(name)
        if not isinstance(group, LiveGroup):
            raise unknown_member_error(name, beat.member_id)
        member = self._member(group, beat)
        session = group.sessions[beat.member_id]
        if beat.epoch == STATIC_LEAVE_EPOCH and member.instance_id is not None:
            session.is_released = True
            return ConsumerHeartbeatAnswer(epoch=STATIC_LEAVE_EPOCH, assigned=None)
        if beat.epoch < 0:
            await group.leave([beat.member_id])
            return ConsumerHeartbeatAnswer(epoch=LEAVE_EPOCH, assigned=None)
        return await self._renew(group, member, session, beat)

    async def check(self, name: str, member_id: str, epoch: int, reader: Reader | None) -> None:
        """Raise ``RequestRefused`` unless the epoch is a member's present one; ``BackOff``, ``OutcomeUnknown``."""
        group = await self._coordinator.claimed(name)
        if not isinstance(group, LiveGroup):
            raise unknown_member_error(name, member_id)
        check_reader(group, group.member(member_id), reader)
        group.check_commit(member_id, epoch)

    def _member(self, group: LiveGroup, beat: ConsumerHeartbeat) -> MemberRow:
        member = group.member(beat.member_id)
        if member.classic is not None or beat.instance_id not in (None, member.instance_id):
            raise unknown_member_error(group.name, beat.member_id)
        check_reader(group, member, beat.reader)
        return member

    async def _join(self, name: str, beat: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        before = await self._coordinator.claimed(name)
        for known in before.row.members:
            if known.member_id == beat.member_id:
                check_reader(before, known, beat.reader)
            elif beat.instance_id is not None and known.instance_id == beat.instance_id:
                if not _is_of(known, beat.reader):
                    raise foreign_instance_error(name, beat.instance_id)
                # A client of the classic protocol does not say that it will come back.
                is_released = known.classic is not None or (
                    isinstance(before, LiveGroup) and before.sessions[known.member_id].is_released
                )
                if not is_released:
                    raise UnreleasedInstance(
                        f"Instance {beat.instance_id!r} of group {name!r} is still a member.",
                        code=ErrorCode.FENCED_MEMBER,
                    )
        assignor = _assignor_of(before, beat.assignor) or "sticky"
        member = MemberRow(
            member_id=beat.member_id,
            client_id=beat.client_id,
            instance_id=beat.instance_id,
            topics=beat.topics or (),
            pattern=beat.pattern or None,
            session_timeout_ms=SESSION_TIMEOUT_MS_DEFAULT,
            target={},
            held={},
            acknowledged=-1,
            reader=beat.reader,
            rebalance_timeout_ms=min(max(1, beat.rebalance_timeout_ms or 1), REBALANCE_TIMEOUT_MS_MAX),
        )
        group = await self._coordinator.live(name, RequestedChanges(join=member, assignor=assignor))
        joined = await group.join(member, assignor)
        session = group.sessions.get(beat.member_id)
        if session is not None:
            session.owned, session.assigned = None, joined.readable
        return ConsumerHeartbeatAnswer(epoch=joined.member.acknowledged, assigned=joined.readable)

    async def _renew(
        self, group: LiveGroup, member: MemberRow, session: Session, beat: ConsumerHeartbeat
    ) -> ConsumerHeartbeatAnswer:
        group.recall(beat.member_id, beat.epoch)
        is_repeated = (
            beat.owned is not None and beat.epoch < session.acknowledged and _within(beat.owned, member.target)
        )
        if beat.epoch != session.acknowledged and not is_repeated:
            raise FencedEpoch(
                f"Epoch {beat.epoch} of member {beat.member_id[:100]!r} of group {group.name!r} is not"
                f" {session.acknowledged}.",
                code=ErrorCode.STALE_GENERATION,
            )
        if beat.owned is not None:
            session.owned = beat.owned
        _assignor_of(group, beat.assignor)
        topics = member.topics if beat.topics is None else beat.topics
        pattern = member.pattern if beat.pattern is None else (beat.pattern or None)
        if (topics, pattern) != (member.topics, member.pattern):
            await group.subscribe(beat.member_id, topics, pattern)
            member = group.member(beat.member_id)
        epoch, assigned = await acknowledge_progress(group, member, session)
        is_told = beat.owned is None and session.assigned == assigned
        _note_assigned(session, assigned)
        return ConsumerHeartbeatAnswer(epoch=epoch, assigned=None if is_told else assigned)


async def acknowledge_progress(group: LiveGroup, member: MemberRow, session: Session) -> tuple[int, Partitions]:
    """Return the member's epoch and the partitions that it may read, after the acknowledgement implied by what its client still
    reads. Raises what ``LiveGroup.join`` raises."""
    lets_go = _has_released(group, member, session)
    await group.heartbeat(member.member_id, group.row.generation if lets_go else None)
    if session.acknowledged == group.row.generation:
        return session.acknowledged, group.holdings.readable(member.member_id)
    # The member still holds a partition that it has lost, or other events came in just when it let go.
    member = group.member(member.member_id)
    group.note_told(member.member_id, group.row.generation)
    return session.acknowledged, common_partitions(group.holdings.held(member.member_id), member.target)


def _has_released(group: LiveGroup, member: MemberRow, session: Session) -> bool:
    """Return whether the client reads nothing that its member has lost: it was told so, and has reported since it was given
    more."""
    held = group.holdings.held(member.member_id)
    lost = set(partition_keys(held)) - set(partition_keys(member.target))
    if not lost:
        return True
    if session.owned is None or lost & set(partition_keys(session.owned)):
        return False
    return session.assigned is None or not lost & set(partition_keys(session.assigned))


def _note_assigned(session: Session, assigned: Partitions) -> None:
    """Note that the client is told to read these partitions. It has to report again if it may begin to read some of them."""
    if session.owned is not None and not _within(assigned, session.owned):
        session.owned = None
    session.assigned = assigned


def check_reader(group: Coordinated, member: MemberRow, reader: Reader | None) -> None:
    """Raise ``RequestRefused`` (``UNKNOWN_MEMBER``) if the member is another principal's: clients choose their ids themselves, so
    an id is no proof."""
    if not _is_of(member, reader):
        raise unknown_member_error(group.name, member.member_id)


def _is_of(member: MemberRow, reader: Reader | None) -> bool:
    return reader is None or (member.reader is not None and member.reader.principal == reader.principal)


def _assignor_of(group: Coordinated, wanted: str | None) -> str | None:
    """Return Tidelog's name of the wanted assignor, or the group's assignor if none is wanted. Raises ``UnknownAssignor``."""
    present = group.row.assignor if group.row.members and isinstance(group, LiveGroup) else None
    if wanted is None:
        return present
    assignor = ASSIGNORS.get(wanted)
    if assignor is None or present not in (None, assignor):
        what = "is neither uniform nor range" if assignor is None else f"is not the group's, {present}"
        raise UnknownAssignor(f"The assignor {wanted[:100]!r} {what}.", code=ErrorCode.INCONSISTENT_ASSIGNOR)
    return assignor


def _within(partitions: Partitions, others: Partitions) -> bool:
    return set(partition_keys(partitions)) <= set(partition_keys(others))
