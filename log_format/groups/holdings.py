"""Which member of a group holds which partition, by the group's row.

1. A member holds the partitions that it has not released yet (``held``), and those of its ``target`` that no other member holds.
2. A member may read those of its ``target`` that no other member holds. So no member reads a moving partition until the former
   holder has acknowledged its release, and the table says so. Hence two members never hold the same partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from log_format.groups.row import GroupRow, MemberRow, Partitions

_NOTHING: Partitions = {}


class Holdings:
    """The holdings by one row; None stands for a group without members. Computed on first use."""

    def __init__(self, row: GroupRow | None) -> None:
        self._row = row

    @cached_property
    def _members(self) -> Mapping[str, MemberRow]:
        return {} if self._row is None else {member.member_id: member for member in self._row.members}

    @cached_property
    def _holder(self) -> Mapping[tuple[str, int], str]:
        return {key: name for name, member in self._members.items() for key in partition_keys(member.held)}

    @cached_property
    def _readable(self) -> dict[str, Partitions]:
        return {}

    def readable(self, member_id: str) -> Partitions:
        """Return the partitions that the member may read now; none for an unknown member."""
        found = self._readable.get(member_id)
        if found is None:
            member = self._members.get(member_id)
            found = _NOTHING if member is None else self._kept(member_id, member.target)
            self._readable[member_id] = found
        return found

    def holds(self, member_id: str, topic: str, partition: int) -> bool:
        """Return whether the member holds the partition."""
        holder = self._holder.get((topic, partition))
        if holder is not None:
            return holder == member_id
        member = self._members.get(member_id)
        return member is not None and partition in member.target.get(topic, ())

    def held(self, member_id: str) -> Partitions:
        """Return all partitions that the member holds."""
        member = self._members[member_id]
        return union_partitions(member.held, self.readable(member_id))

    def _kept(self, member_id: str, partitions: Partitions) -> Partitions:
        kept = {
            topic: tuple(number for number in numbers if self._holder.get((topic, number), member_id) == member_id)
            for topic, numbers in partitions.items()
        }
        return {topic: numbers for topic, numbers in kept.items() if numbers}


def partition_keys(partitions: Partitions) -> Iterable[tuple[str, int]]:
    """Return an iterator over each (topic, partition)."""
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)


def union_partitions(one: Partitions, other: Partitions) -> Partitions:
    """Return the partitions in either."""
    if not one or not other:
        return one or other
    return {topic: tuple(sorted({*one.get(topic, ()), *other.get(topic, ())})) for topic in sorted({*one, *other})}


def common_partitions(one: Partitions, other: Partitions) -> Partitions:
    """Return the partitions in both."""
    found = {topic: tuple(sorted(set(numbers).intersection(other.get(topic, ())))) for topic, numbers in one.items()}
    return {topic: numbers for topic, numbers in found.items() if numbers}
