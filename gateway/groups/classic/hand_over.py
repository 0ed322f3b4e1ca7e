"""Change of a classic group, with all its members, to partitions that the gateway assigns (KIP-848, online migration).

1. Its members are taken to read what the table says that they were assigned: they hold it until they join again without it.
2. A member that was never assigned anything is left out. Its client is told to join again, which it can without loss.
3. Nobody is disturbed if the group can't be changed: see ``row_to_hand_over``.

The way back needs no code here: ``ClassicGroup`` takes a row that the gateway assigned, and has its members join again.

Source: KIP-848, "Online Migration"; Kafka's ``convertToConsumerGroup``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.groups.classic.consumer_protocol import PROTOCOL_TYPE, has_user_data, owned_partitions
from gateway.groups.classic.group import ClassicGroup
from gateway.groups.classic.member import Member, assigned_by_gateway
from gateway.groups.classic.refusal import Rebalancing, inconsistent
from log_format.groups.row import GroupRow, MemberRow

_PLAIN: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors of plain clients. Members ignore an assignment's user data; librdkafka's leader repeats their metadata there."""
_OTHERS: Final = (
    "its members assign partitions among themselves, by Kafka's classic protocol, and not as plain consumers do"
)


async def hand_over(group: ClassicGroup) -> GroupRow:
    """End the classic group, and return the row with which another takes its place: it is not in the table yet.

    Members that wait are told to join again. Raises what ``row_to_hand_over`` raises, and ``CoordinatorFenced``.
    """
    await group.stored.settled()
    group.check_mine()
    row = row_to_hand_over(group)
    group.is_lost = True
    group.members.fail(Rebalancing(group.name))
    return row


def row_to_hand_over(group: ClassicGroup) -> GroupRow:
    """Return the group's row as if the gateway had assigned what its members have.

    Raises ``RequestRefused`` (``INCONSISTENT_ASSIGNOR``) if its members are no plain consumers: the gateway can't make what
    their leader told them in addition to partitions.
    """
    if group.members and group.protocol_type != PROTOCOL_TYPE:
        raise inconsistent(group.name, _OTHERS)
    before = {one.member_id: one for one in group.row.members}
    is_known = {group.protocol, group.row.assignor} <= _PLAIN
    members = []
    for member in group.members:
        known = next((before[one] for one in (member.member_id, *reversed(member.former_ids)) if one in before), None)
        if not _is_plain(member, known, is_known=is_known):
            raise inconsistent(group.name, _OTHERS)
        if known is not None:
            made = assigned_by_gateway(member.member_id, member.wish)
            members.append(
                msgspec.structs.replace(
                    made, target=known.target, acknowledged=group.row.generation, former_ids=member.former_ids
                )
            )
    return msgspec.structs.replace(
        group.row, generation=group.generation, assignor=None, members=tuple(members), classic=None
    )


def _is_plain(member: Member, known: MemberRow | None, *, is_known: bool) -> bool:
    """Return whether the gateway understands all that the member brought and was assigned."""
    assignment = b"" if known is None or known.classic is None else known.classic.assignment
    try:
        owned_partitions(member.wish.protocols[0][1])
    except ValueError:
        return False
    return is_known or not (has_user_data(assignment) or has_user_data(member.assignment))
