"""The members of share groups that this gateway coordinates, and each member's assignment.

1. A member is assigned every partition of its topics: records are shared one by one, so no member has to wait for partitions.
2. Membership is kept in memory only. It gives no right to a record, and a member that is not known joins again with its next
   heartbeat.
3. A member that is silent for ``session_ms`` is removed.

No I/O; times are monotonic milliseconds. Source: KIP-932 (ShareGroupHeartbeat).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

MEMBERS_MAX: Final = 1_000
"""Most members of a group; Kafka's ``group.share.max.size`` is 200."""
MEMBER_BYTES: Final = 1_024
TOPIC_BYTES: Final = 256
"""Memory of a member, and of each topic that it names: measured on CPython 3.11, rounded up."""

Assignment = Mapping[str, tuple[UUID, int]]
"""Each topic's id and number of partitions."""


class ShareMemory(Protocol):
    """A memory budget, such as ``gateway.system_tables.queues.QueuesTable``."""

    def has_room(self, more: int) -> bool:
        """Return whether so many more bytes are within the budget."""

    def count_bytes(self, more: int) -> None:
        """Add the bytes to the count; a negative number subtracts."""


class ShareMemberError(Exception):
    """The heartbeat does not fit the group's members."""


class UnknownShareMember(ShareMemberError):
    """The member is not in the group, or no longer."""


class FencedShareMember(ShareMemberError):
    """The heartbeat's epoch is not the member's."""


class TooManyShareMembers(ShareMemberError):
    """The group, or the gateway, has no room for another member."""


@dataclass(slots=True, kw_only=True)
class ShareMember:
    """A member. ``owner``: the principal that joined. ``epoch``: epoch of the assignment that the member was sent last."""

    member_id: str
    owner: str
    client_id: str
    client_host: str
    rack_id: str | None
    topics: tuple[str, ...]
    epoch: int = 0
    epoch_before: int = 0
    ends_ms: int = 0
    assigned: Assignment = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Estimated memory of the member."""
        return MEMBER_BYTES + TOPIC_BYTES * len(self.topics)


@dataclass(slots=True)
class ShareGroup:
    """A share group. ``known_assignment``: its members' topics as they were at ``looked_up_ms``."""

    epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    known_assignment: Assignment = field(default_factory=dict)
    looked_up_ms: int | None = None

    @property
    def topics(self) -> list[str]:
        """Topics that the members subscribe to, each once."""
        return sorted({topic for member in self.members.values() for topic in member.topics})


class ShareMembers:
    """All share groups of this gateway. Used on the event loop only."""

    def __init__(self, session_ms: int, memory: ShareMemory) -> None:
        self._session_ms = session_ms
        self._memory = memory
        self._groups: dict[str, ShareGroup] = {}

    def group(self, name: str, now_ms: int) -> ShareGroup | None:
        """Return the group with its present members; None if it has none."""
        group = self._groups.get(name)
        if group is not None:
            for member in [one for one in group.members.values() if one.ends_ms <= now_ms]:
                self._remove(name, group, member)
        return self._groups.get(name)

    def join(self, name: str, member: ShareMember, now_ms: int) -> ShareGroup:
        """Add a member, or replace it. Raise ``TooManyShareMembers``; ``UnknownShareMember`` for an id of another owner."""
        group = self.group(name, now_ms) or ShareGroup()
        known = group.members.get(member.member_id)
        if known is not None and known.owner != member.owner:
            raise UnknownShareMember
        if known is None and len(group.members) >= MEMBERS_MAX:
            raise TooManyShareMembers
        self._reserve(member.size_bytes - (0 if known is None else known.size_bytes))
        group.members[member.member_id] = member
        self._groups[name] = group
        group.epoch += 1
        group.looked_up_ms = None
        member.ends_ms = now_ms + self._session_ms
        return group

    def member(self, name: str, member_id: str, owner: str, now_ms: int) -> tuple[ShareGroup, ShareMember]:
        """Return the group and its member. Raise ``UnknownShareMember``."""
        group = self.group(name, now_ms)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or member.owner != owner:
            raise UnknownShareMember
        return group, member

    def renew(self, member: ShareMember, epoch: int, now_ms: int) -> None:
        """Renew the member's session. Raise ``FencedShareMember``."""
        if epoch not in (member.epoch, member.epoch_before):
            raise FencedShareMember
        member.ends_ms = now_ms + self._session_ms

    def subscribe(self, group: ShareGroup, member: ShareMember, topics: tuple[str, ...]) -> None:
        """Replace the member's subscription. Raise ``TooManyShareMembers``."""
        if topics == member.topics:
            return
        self._reserve(TOPIC_BYTES * (len(topics) - len(member.topics)))
        member.topics = topics
        group.epoch += 1
        group.looked_up_ms = None

    def leave(self, name: str, group: ShareGroup, member: ShareMember) -> None:
        """Remove the member."""
        self._remove(name, group, member)

    def _reserve(self, more: int) -> None:
        if more > 0 and not self._memory.has_room(more):
            raise TooManyShareMembers
        self._memory.count_bytes(more)

    def _remove(self, name: str, group: ShareGroup, member: ShareMember) -> None:
        if group.members.pop(member.member_id, None) is None:
            return
        self._memory.count_bytes(-member.size_bytes)
        group.epoch += 1
        if not group.members and self._groups.get(name) is group:
            del self._groups[name]


def update_assignment(group: ShareGroup, member: ShareMember) -> bool:
    """Update the member's assignment from the known topics, and return whether it changed."""
    assigned = {topic: group.known_assignment[topic] for topic in member.topics if topic in group.known_assignment}
    is_news = assigned != member.assigned
    if is_news or member.epoch == 0:
        group.epoch += is_news
        member.epoch_before, member.epoch = member.epoch or group.epoch, group.epoch
        member.assigned = assigned
    return is_news
