"""Kafka's assignors, which decide which member gets which partition.

``range`` and ``roundrobin`` give the same result as Kafka's RangeAssignor and RoundRobinAssignor (without racks). ``sticky``
balances as evenly and moves as little as Kafka's cooperative sticky assignor. Members are in Kafka's order: static ones first,
by instance id, then the others by member id. All are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.groups.assignment.sticky import assign_sticky
from log_format.errors import BackOff
from log_format.groups.row import Partitions

PartitionCounts = Mapping[str, int]
"""Number of partitions of each existing topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member, its subscription, and the partitions that it had before."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    before: Partitions

    @property
    def order(self) -> tuple[bool, str]:
        """Sort key of Kafka's order of members."""
        return (self.instance_id is None, self.member_id if self.instance_id is None else self.instance_id)


def assign(assignor: str, subscribers: Sequence[Subscriber], counts: PartitionCounts) -> dict[str, Partitions]:
    """Return each member's partitions by member id. Raises ``BackOff`` for an assignor outside of ``ASSIGNORS``."""
    if assignor not in ASSIGNORS:
        # A newer gateway wrote the group's row during a rolling upgrade.
        raise BackOff(
            f"The group uses the assignor {assignor!r}, which this gateway does not know: it needs an upgrade."
        )
    ordered = sorted(subscribers, key=lambda one: one.order)
    found = ASSIGNORS[assignor](ordered, counts)
    return {
        name: {topic: tuple(sorted(numbers)) for topic, numbers in sorted(topics.items()) if numbers}
        for name, topics in found.items()
    }


_Lists = dict[str, dict[str, list[int]]]


def _range(ordered: Sequence[Subscriber], counts: PartitionCounts) -> _Lists:
    """Assign topic by topic: an equal share for each member, and one more for the first members if the division leaves a
    remainder."""
    found: _Lists = {one.member_id: {} for one in ordered}
    for topic in sorted(counts):
        readers = [one for one in ordered if topic in one.topics]
        start = 0
        for index, one in enumerate(readers):
            size = counts[topic] // len(readers) + (index < counts[topic] % len(readers))
            found[one.member_id][topic] = list(range(start, start + size))
            start += size
    return found


def _round_robin(ordered: Sequence[Subscriber], counts: PartitionCounts) -> _Lists:
    """Assign all partitions in order, each to the next member that subscribes to its topic."""
    found: _Lists = {one.member_id: {} for one in ordered}
    wanted = {topic for one in ordered for topic in one.topics}
    turn = 0
    for topic, partition in _partitions(counts):
        if topic not in wanted:
            continue
        while topic not in ordered[turn % len(ordered)].topics:
            turn += 1
        found[ordered[turn % len(ordered)].member_id].setdefault(topic, []).append(partition)
        turn += 1
    return found


def _sticky(ordered: Sequence[Subscriber], counts: PartitionCounts) -> _Lists:
    given = assign_sticky(
        [one.topics for one in ordered],
        [{(topic, number) for topic, numbers in one.before.items() for number in numbers} for one in ordered],
        counts,
    )
    found: _Lists = {one.member_id: {} for one in ordered}
    for one, partitions in zip(ordered, given, strict=True):
        for topic, number in partitions:
            found[one.member_id].setdefault(topic, []).append(number)
    return found


def _partitions(counts: PartitionCounts) -> Iterator[tuple[str, int]]:
    return ((topic, number) for topic in sorted(counts) for number in range(counts[topic]))


ASSIGNORS: Final[Mapping[str, Callable[[Sequence[Subscriber], PartitionCounts], _Lists]]] = {
    "range": _range,
    "roundrobin": _round_robin,
    "sticky": _sticky,
}
