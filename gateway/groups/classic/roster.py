"""Members of one classic group: found by id and instance, with the protocols that they know, and as rows of the table; and ids of
clients that have yet to join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gateway.groups.bounds import CLASSIC_GROUP_BYTES_MAX
from gateway.groups.classic.member import ClassicGeneration, ClassicJoinRequest, Member
from gateway.groups.classic.refusal import inconsistent
from gateway.problem import overloaded
from log_format.cluster.proof import NOBODY
from log_format.errors import TidelogError
from log_format.groups.changes import fenced_member_error, foreign_instance_error, unknown_member_error
from log_format.groups.row import MemberRow, belongs_to_another


class Roster:
    """Members in the order of joining, which is also that of the rows. ``group`` names the group in refusals."""

    def __init__(self, group: str, members: Iterable[Member]) -> None:
        self._group = group
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, str] = {}
        self._former_ids: set[str] = set()
        self._support: Counter[str] = Counter()
        """Number of members that know each protocol."""
        for member in members:
            self.add(member)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    def __contains__(self, member: Member) -> bool:
        return self._by_id.get(member.member_id) is member

    @property
    def all_join(self) -> bool:
        """Whether every member waits for the next generation."""
        return all(one.joining is not None for one in self._by_id.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """Longest rebalance timeout that any member asked for."""
        return max((one.wish.rebalance_timeout_ms for one in self._by_id.values()), default=0)

    def of_instance(self, instance_id: str | None) -> Member | None:
        """Return the member that is this instance now, None if there is none."""
        return self._by_id.get(self._by_instance.get(instance_id or "", ""))

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """Return the member. Raises ``RequestRefused`` (``UNKNOWN_MEMBER``, ``FENCED_MEMBER``)."""
        if instance_id is not None:
            present = self.of_instance(instance_id)
            if present is not None and present.member_id != member_id:
                raise fenced_member_error(self._group, member_id)
        found = self._by_id.get(member_id)
        if found is None and member_id in self._former_ids:
            raise fenced_member_error(self._group, member_id)
        if found is None or (instance_id is not None and found.wish.instance_id != instance_id):
            raise unknown_member_error(self._group, member_id)
        return found

    def add(self, member: Member) -> None:
        """Add a member."""
        self._by_id[member.member_id] = member
        self._list(member)

    def remove(self, member: Member) -> None:
        """Remove a member."""
        del self._by_id[member.member_id]
        self._unlist(member)

    def update(self, member: Member, wish: ClassicJoinRequest) -> None:
        """Take over a repeated join's wish."""
        self._unlist(member)
        member.update(wish)
        self._list(member)

    def replace(self, old: Member, new: Member) -> None:
        """Put the new member in the old one's place."""
        self._unlist(old)
        members = [new if one is old else one for one in self._by_id.values()]
        self._by_id = {one.member_id: one for one in members}
        self._list(new)

    def check_instance(self, wish: ClassicJoinRequest) -> None:
        """Raise ``RequestRefused`` (``FENCED_MEMBER``) if the member would replace another principal's."""
        known = self.of_instance(wish.instance_id)
        owner = NOBODY if wish.reader is None else wish.reader.principal
        if known is not None and belongs_to_another(known.wish.reader, owner):
            raise foreign_instance_error(self._group, wish.instance_id)

    def check_protocols(self, wish: ClassicJoinRequest, protocol_type: str) -> None:
        """Raise ``RequestRefused`` (``INCONSISTENT_ASSIGNOR``) if the member has no protocol in common with all others."""
        if not wish.protocol_type or not wish.protocols:
            raise inconsistent(self._group, "a member must name its protocols")
        if sum(len(metadata) for _, metadata in wish.protocols) > CLASSIC_GROUP_BYTES_MAX:
            raise inconsistent(self._group, f"the metadata of a member may have {CLASSIC_GROUP_BYTES_MAX} bytes")
        own = self._by_id.get(wish.member_id) or self.of_instance(wish.instance_id)
        others = len(self._by_id) - (own is not None)
        if not others:
            return
        own_names = () if own is None else own.metadata_by_protocol
        common = [name for name, _ in wish.protocols if self._support[name] - (name in own_names) == others]
        if wish.protocol_type != protocol_type or not common:
            raise inconsistent(self._group, "its members know none of these protocols")

    def joined(
        self, member: Member, generation: int, protocol_type: str, protocol: str, leader: str
    ) -> ClassicGeneration:
        """Return what a member is told of a generation. Only the leader is told of the others."""
        listed = self if member.member_id == leader else ()
        return ClassicGeneration(
            member_id=member.member_id,
            generation=generation,
            protocol_type=protocol_type,
            protocol=protocol,
            leader=leader,
            members=[(one.member_id, one.wish.instance_id, one.metadata_by_protocol[protocol]) for one in listed],
        )

    def seen_ms(self) -> dict[str, int]:
        """Return when each member was heard of last (monotonic clock), by its id; later than now if that is not known."""
        return {member.member_id: member.seen_ms for member in self}

    def postpone(self, duration_ms: int) -> None:
        """Extend all sessions by the time for which this process was suspended."""
        for member in self._by_id.values():
            member.seen_ms += duration_ms

    def fail(self, error: TidelogError) -> None:
        """Answer all waiting calls with an error."""
        for member in self._by_id.values():
            member.fail(error)

    def fail_syncs(self, error: TidelogError) -> None:
        """Answer all waiting syncs with an error."""
        for member in self._by_id.values():
            member.fail_sync(error)

    def release(self) -> None:
        """Release the memory that is counted for members, since a row of the table counts it."""
        for member in self._by_id.values():
            member.release(None)

    def rows(self, generation: int, protocol: str, assignments: Mapping[str, bytes]) -> tuple[MemberRow, ...]:
        """Return the members' rows for the table. Raises ``BackOff`` (``OVERLOADED``) if they are too large."""
        rows = tuple(one.row(generation, protocol, assignments.get(one.member_id, b"")) for one in self._by_id.values())
        opaque = [row.classic for row in rows if row.classic is not None]
        if sum(len(one.metadata) + len(one.assignment) for one in opaque) > CLASSIC_GROUP_BYTES_MAX:
            raise overloaded(f"Metadata and assignments of a group may have {CLASSIC_GROUP_BYTES_MAX} bytes.")
        return rows

    def _list(self, member: Member) -> None:
        self._support.update(member.metadata_by_protocol.keys())
        self._former_ids.update(member.former_ids)
        if member.wish.instance_id is not None:
            self._by_instance[member.wish.instance_id] = member.member_id

    def _unlist(self, member: Member) -> None:
        for name in member.metadata_by_protocol:
            self._support[name] -= 1
            if not self._support[name]:
                del self._support[name]
        self._former_ids.difference_update(member.former_ids)
        instance_id = member.wish.instance_id
        if instance_id is not None and self._by_instance.get(instance_id) == member.member_id:
            del self._by_instance[instance_id]


class PromisedIds:
    """Ids given to clients that have not joined with them yet (KIP-394): a rebalance waits for them until then.

    Times are monotonic milliseconds.
    """

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._until_ms)

    @property
    def ends_ms(self) -> Iterable[int]:
        """Times until which the ids may be used."""
        return self._until_ms.values()

    def promise(self, member_id: str, until_ms: int) -> None:
        """Let a client join with this id until the time."""
        self._until_ms[member_id] = until_ms

    def take(self, member_id: str) -> bool:
        """Drop an id; return whether it was promised."""
        return self._until_ms.pop(member_id, None) is not None

    def end(self, now_ms: int) -> None:
        """Drop the ids whose time is over."""
        self._until_ms = {name: until_ms for name, until_ms in self._until_ms.items() if until_ms > now_ms}

    def postpone(self, duration_ms: int) -> None:
        """Extend all ids by the time for which this process was suspended."""
        self._until_ms = {name: until_ms + duration_ms for name, until_ms in self._until_ms.items()}
