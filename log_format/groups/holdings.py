"""Which member holds which partition of a group, by what its row says.

1. A member holds what it held before and has not let go of (``held``), and what it is given (``target``) and no other holds.
2. It may read what it is given and no other holds. So no member reads a partition that moves until the member that had
   it has acknowledged, and that is in the table; hence no partition is ever held by two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from log_format.groups.row import GroupRow, MemberRow, Partitions

_NOTHING: Partitions = {}


class Holdings:
    """Of one row; None: of a group without members. Computed when asked for, once."""

    def __init__(self, row: GroupRow | None) -> None:
        self._row = row

    @cached_property
    def _members(self) -> Mapping[str, MemberRow]:
        return {} if self._row is None else {member.member_id: member for member in self._row.members}

    @cached_property
    def _holder(self) -> Mapping[tuple[str, int], str]:
        return {key: name for name, member in self._members.items() for key in keys_of(member.held)}

    @cached_property
    def _readable(self) -> dict[str, Partitions]:
        return {}

    def readable(self, member_id: str) -> Partitions:
        """What the member may read now; nothing for one that is not there."""
        found = self._readable.get(member_id)
        if found is None:
            member = self._members.get(member_id)
            found = _NOTHING if member is None else self._kept(member_id, member.target)
            self._readable[member_id] = found
        return found

    def holds(self, member_id: str, topic: str, partition: int) -> bool:
        """Whether the member holds the partition."""
        holder = self._holder.get((topic, partition))
        if holder is not None:
            return holder == member_id
        member = self._members.get(member_id)
        return member is not None and partition in member.target.get(topic, ())

    def held(self, member_id: str) -> Partitions:
        """All that the member holds."""
        member = self._members[member_id]
        return joined(member.held, self.readable(member_id))

    def _kept(self, member_id: str, partitions: Partitions) -> Partitions:
        kept = {
            topic: tuple(number for number in numbers if self._holder.get((topic, number), member_id) == member_id)
            for topic, numbers in partitions.items()
        }
        return {topic: numbers for topic, numbers in kept.items() if numbers}


def keys_of(partitions: Partitions) -> Iterable[tuple[str, int]]:
    """Each topic and partition."""
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)


def joined(one: Partitions, other: Partitions) -> Partitions:
    """What is in either."""
    if not one or not other:
        return one or other
    return {topic: tuple(sorted({*one.get(topic, ()), *other.get(topic, ())})) for topic in sorted({*one, *other})}


def common(one: Partitions, other: Partitions) -> Partitions:
    """What is in both."""
    found = {topic: tuple(sorted(set(numbers).intersection(other.get(topic, ())))) for topic, numbers in one.items()}
    return {topic: numbers for topic, numbers in found.items() if numbers}
