"""A group's next row, made of members that joined, left or acknowledged, with what each gets. Pure.

1. A change of members, topics or partitions raises the generation. An acknowledgement does not, nor a static member that comes
   back unchanged.
2. A member holds the partitions that it held until its acknowledgement is in a row; see ``log_format/groups/holdings.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gateway.groups.assignment.assignors import Subscriber, assign
from gateway.groups.bounds import FORMER_IDS_MAX
from log_format.groups.holdings import Holdings, common_partitions
from log_format.groups.row import GroupRow, MemberRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriptions:
    """Existing topics that each member subscribes to, by member id, and the number of partitions of each topic."""

    topics: Mapping[str, frozenset[str]]
    counts: Mapping[str, int]


WantedTopics = tuple[tuple[str, ...], str | None]
"""Topics, and pattern of topics, that a member subscribes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvents:
    """Events that the next row takes in."""

    joins: Sequence[MemberRow] = ()
    leaves: Collection[str] = ()
    subscribed: Mapping[str, WantedTopics] = field(default_factory=dict)
    """New subscriptions, by member id."""
    acknowledged: Mapping[str, int] = field(default_factory=dict)
    """Newest generation that each member acknowledged, by member id."""


def members_after(row: GroupRow, happened: GroupEvents) -> list[MemberRow]:
    """Return the members before the new assignment: without those that left, with those that joined."""
    holdings = Holdings(row)
    by_instance = {one.instance_id: one for one in happened.joins if one.instance_id is not None}
    outrun: dict[str, tuple[str, ...]] = {}
    """Ids that earlier joins in the same events gave to an instance, by its newest member id; these are former ids,
    too."""
    for one in happened.joins:
        if one.instance_id is not None and by_instance[one.instance_id] is not one:
            newest = by_instance[one.instance_id].member_id
            outrun[newest] = (*outrun.get(newest, ()), one.member_id)
    found: list[MemberRow] = []
    taken: set[str] = set()
    for member in row.members:
        if member.member_id in happened.leaves:
            continue
        acknowledged = max(member.acknowledged, happened.acknowledged.get(member.member_id, member.acknowledged))
        held = holdings.held(member.member_id)
        if acknowledged == row.generation:
            held = common_partitions(held, member.target)
        successor = by_instance.get(member.instance_id) if member.instance_id is not None else None
        if successor is None:
            topics, pattern = happened.subscribed.get(member.member_id, (member.topics, member.pattern))
            found.append(
                msgspec.structs.replace(member, acknowledged=acknowledged, held=held, topics=topics, pattern=pattern)
            )
            continue
        taken.add(successor.member_id)
        found.append(
            msgspec.structs.replace(
                successor,
                target=member.target,
                held=common_partitions(held, member.target),
                former_ids=_newest(*member.former_ids, member.member_id, *outrun.get(successor.member_id, ())),
                acknowledged=row.generation,
            )
        )
    for one in happened.joins:
        is_newest = one.instance_id is None or by_instance[one.instance_id] is one
        if is_newest and one.member_id not in taken:
            found.append(msgspec.structs.replace(one, former_ids=_newest(*outrun.get(one.member_id, ()))))
    return found


def restrict_to_assigned(row: GroupRow, subscriptions: Subscriptions) -> Subscriptions:
    """Return the subscriptions reduced to the partitions that members in the row have: for a group that may not become larger."""
    counts: dict[str, int] = {}
    for member in row.members:
        for topic, numbers in member.target.items():
            counts[topic] = max(counts.get(topic, 0), numbers[-1] + 1)
    counts = {topic: min(count, subscriptions.counts.get(topic, 0)) for topic, count in counts.items()}
    counts = {topic: count for topic, count in counts.items() if count}
    topics = {name: wanted & counts.keys() for name, wanted in subscriptions.topics.items()}
    return Subscriptions(topics=topics, counts=counts)


def _newest(*former_ids: str) -> tuple[str, ...]:
    return former_ids[-FORMER_IDS_MAX:]


def needs_generation(row: GroupRow, members: Sequence[MemberRow]) -> bool:
    """Return whether the members, or the topics that they subscribe to, differ from the row's."""
    return [_identity(member) for member in members] != [_identity(member) for member in row.members]


def next_row(row: GroupRow, members: Sequence[MemberRow], subscriptions: Subscriptions, assignor: str) -> GroupRow:
    """Return the row with these members, with a new generation if needed. Raises what ``assign`` raises."""
    subscribers = [
        Subscriber(
            member_id=member.member_id,
            instance_id=member.instance_id,
            topics=subscriptions.topics[member.member_id],
            before=member.target,
        )
        for member in members
    ]
    targets = assign(assignor, subscribers, subscriptions.counts) if subscribers else {}
    is_same = not needs_generation(row, members) and all(
        member.target == targets[member.member_id] for member in members
    )
    if is_same:
        return msgspec.structs.replace(
            row, members=tuple(_acknowledged_at(member, row.generation) for member in members)
        )
    generation = row.generation + 1
    known = {member.member_id for member in row.members}
    return msgspec.structs.replace(
        row,
        generation=generation,
        assignor=assignor if members else None,
        classic=None,
        members=tuple(
            msgspec.structs.replace(
                _acknowledged_at(member, generation) if member.member_id in known else _joined_at(member, generation),
                target=targets[member.member_id],
            )
            for member in members
        ),
    )


def _acknowledged_at(member: MemberRow, generation: int) -> MemberRow:
    """Return the member as it is, or acknowledged at ``generation`` if it joined anew with its id."""
    return member if member.acknowledged >= 0 else _joined_at(member, generation)


def _joined_at(member: MemberRow, generation: int) -> MemberRow:
    """Return a joining member as acknowledged at the generation of its answer."""
    return msgspec.structs.replace(member, acknowledged=generation)


def _identity(member: MemberRow) -> tuple[str, tuple[str, ...], str | None]:
    """Return a member's identity in the assignment. A static member stays itself under another member id."""
    name = member.member_id if member.instance_id is None else f"\0{member.instance_id}"
    return (name, member.topics, member.pattern)
