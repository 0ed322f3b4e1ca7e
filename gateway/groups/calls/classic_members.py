"""Members that speak Kafka's classic protocol in a group to whose members the gateway assigns partitions (KIP-848, online
migration).

1. As for other members, such a member's generation is the one that it acknowledged. It acknowledges by joining: its metadata
   say what it still reads, which is nothing for a client that gives up all partitions before it joins.
2. A join is answered immediately, without a leader. The member is told its partitions with its sync.
3. The member is told to join again (``Rebalancing``) while there is a newer generation, or while it may read a partition that
   it was not told of: one that another member has let go of, or all after a take-over, since what a member was told is kept in
   memory only.

Source: KIP-848, "Online Migration"; Kafka's ``classicGroupJoinToConsumerGroup`` and its siblings.
"""

from __future__ import annotations

from gateway.groups.bounds import CLASSIC_GROUP_BYTES_MAX
from gateway.groups.calls.epochs import acknowledge_progress, check_reader
from gateway.groups.classic.consumer_protocol import (
    PROTOCOL_TYPE,
    assignment_of,
    owned_partitions,
    subscribed_topics,
)
from gateway.groups.classic.member import ClassicGeneration, ClassicJoinRequest, assigned_by_gateway
from gateway.groups.classic.refusal import Rebalancing, inconsistent
from gateway.groups.membership.live_group import LiveGroup
from log_format.groups.changes import fenced_member_error, stale_error, unknown_member_error
from log_format.groups.row import MemberRow, Partitions


async def join(group: LiveGroup, wish: ClassicJoinRequest, new_id: str) -> ClassicGeneration | None:
    """Let a member join; return its generation, or None if its client shall join again, with ``new_id``.

    Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``.
    """
    owned = _owned(group, wish)
    if not wish.member_id and wish.requires_id and wish.instance_id is None:
        return None
    member = _known(group, wish, owned)
    member_id = wish.member_id or new_id
    if member is None:
        joined = await group.join(assigned_by_gateway(member_id, wish), group.row.assignor or "sticky")
        generation, assigned = joined.member.acknowledged, joined.readable
    else:
        session = group.sessions[member_id]
        session.owned = session.assigned = owned
        topics = subscribed_topics(wish.protocols[0][1])
        if topics != member.topics:
            await group.subscribe(member_id, topics, None)
            member = group.member(member_id)
        generation, assigned = await acknowledge_progress(group, member, session)
    if member_id in group.sessions:
        group.sessions[member_id].assigned = assigned
    return ClassicGeneration(
        member_id=member_id,
        generation=generation,
        protocol_type=PROTOCOL_TYPE,
        protocol=wish.protocols[0][0],
        leader="",
    )


def sync(
    group: LiveGroup, member_id: str, instance_id: str | None, generation: int, protocol: tuple[str, str] | None
) -> bytes:
    """Return the member's assignment. ``protocol``: its type and name as the member knows them; None: not checked.

    Raises ``RequestRefused`` (also ``Rebalancing``).
    """
    member = member_of(group, member_id, instance_id)
    _check_generation(group, member_id, generation)
    names = () if member.classic is None else member.classic.protocols
    if protocol is not None and (protocol[0] != PROTOCOL_TYPE or protocol[1] not in names):
        raise inconsistent(group.name, f"the member's protocols are {PROTOCOL_TYPE}/{names}")
    session = group.sessions[member_id]
    if generation != session.acknowledged or session.assigned is None:
        raise Rebalancing(group.name)
    return assignment_of(session.assigned)


async def heartbeat(group: LiveGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    """Take a member's heartbeat. Raises ``RequestRefused`` (also ``Rebalancing``), ``BackOff``, ``OutcomeUnknown``."""
    member_of(group, member_id, instance_id)
    _check_generation(group, member_id, generation)
    heard = await group.heartbeat(member_id, None)
    session = group.sessions[member_id]
    if generation != heard.generation or session.assigned != heard.readable:
        group.note_called(session)
        raise Rebalancing(group.name)


def member_of(group: LiveGroup, member_id: str, instance_id: str | None) -> MemberRow:
    """Return a member that speaks the classic protocol. Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``)."""
    present = _of_instance(group, instance_id)
    if present is not None and present.member_id != member_id:
        raise fenced_member_error(group.name, member_id)
    member = group.member(member_id)
    if member.classic is None or instance_id not in (None, member.instance_id):
        raise unknown_member_error(group.name, member_id)
    return member


def _known(group: LiveGroup, wish: ClassicJoinRequest, owned: Partitions) -> MemberRow | None:
    """Return the member that joins again; None for one that joins anew, perhaps in place of a static one. Raises
    ``RequestRefused``."""
    if not wish.member_id:
        return None
    if wish.instance_id is None and not owned and not _has_been(group, wish.member_id):
        # A client whose id was just issued joins anew. One that reads something was a member, and must give that up.
        return None
    member = member_of(group, wish.member_id, wish.instance_id)
    check_reader(group, member, wish.reader)
    return member


def _has_been(group: LiveGroup, member_id: str) -> bool:
    return any(member_id in (one.member_id, *one.former_ids) for one in group.row.members)


def _of_instance(group: LiveGroup, instance_id: str | None) -> MemberRow | None:
    return next((one for one in group.row.members if instance_id is not None and one.instance_id == instance_id), None)


def _owned(group: LiveGroup, wish: ClassicJoinRequest) -> Partitions:
    """Return the partitions that the client reads, by its metadata.

    Raises ``RequestRefused`` (``INCONSISTENT_ASSIGNOR``) for a member that is no consumer, or that has no protocol in common
    with the group's other classic members, with which it would be left if the rest leaves.
    """
    if wish.protocol_type != PROTOCOL_TYPE or not wish.protocols:
        raise inconsistent(group.name, "its members are consumers")
    if sum(len(metadata) for _, metadata in wish.protocols) > CLASSIC_GROUP_BYTES_MAX:
        raise inconsistent(group.name, f"the metadata of a member may have {CLASSIC_GROUP_BYTES_MAX} bytes")
    common = {name for name, _ in wish.protocols}
    for one in group.row.members:
        is_itself = one.member_id == wish.member_id or (
            wish.instance_id is not None and one.instance_id == wish.instance_id
        )
        if one.classic is not None and not is_itself:
            common.intersection_update(one.classic.protocols)
    if not common:
        raise inconsistent(group.name, "its members by the classic protocol know none of these protocols")
    try:
        return owned_partitions(wish.protocols[0][1])
    except ValueError as problem:
        raise inconsistent(group.name, "the member's metadata are no consumer's") from problem


def _check_generation(group: LiveGroup, member_id: str, generation: int) -> None:
    """Raise if the generation is older than the member's, or newer than the group's.

    A client may know a newer generation than its own from the classic group, before the gateway assigned partitions.
    """
    acknowledged = group.sessions[member_id].acknowledged
    if not acknowledged <= generation <= group.row.generation:
        raise stale_error(group.name, f"generation {generation} is not the member's, which is {acknowledged}")
