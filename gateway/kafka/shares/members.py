"""The members of share groups that this gateway coordinates, and what each was told to read.

1. A member reads every partition of the topics that it subscribes to: records are shared one by one, so none has to wait.
2. Membership is memory. It gives no right to a record, and a member that is not known joins again with its next heartbeat.
3. A member that is silent for ``session_ms`` is no member any more.

No I/O; times are monotonic milliseconds. Source: KIP-932 (ShareGroupHeartbeat).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from gateway.kafka.shares.memory import ShareMemory

MEMBERS_MAX: Final = 1_000
"""Of one group; Kafka's ``group.share.max.size`` is 200."""
MEMBER_BYTES: Final = 1_024
TOPIC_BYTES: Final = 256
"""What a member takes, and each topic that it names: measured on CPython 3.11, rounded up."""

Assigned = Mapping[str, tuple[UUID, int]]
"""Of each topic its id, and how many partitions it has."""


class ShareMemberError(Exception):
    """The heartbeat does not fit the group's members."""


class UnknownShareMember(ShareMemberError):
    """The member is not, or no more, one of the group."""


class FencedShareMember(ShareMemberError):
    """The member's epoch is not the one that it was given."""


class TooManyShareMembers(ShareMemberError):
    """The group, or the gateway, has no room for another member."""


@dataclass(slots=True, kw_only=True)
class ShareMember:
    """``owner``: the principal that joined. ``epoch`` is of what it was told last."""

    member_id: str
    owner: str
    client_id: str
    client_host: str
    rack_id: str | None
    topics: tuple[str, ...]
    epoch: int = 0
    epoch_before: int = 0
    ends_ms: int = 0
    assigned: Assigned = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return MEMBER_BYTES + TOPIC_BYTES * len(self.topics)


@dataclass(slots=True)
class ShareGroup:
    """``known``: its members' topics as they were at ``looked_ms``."""

    epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    known: Assigned = field(default_factory=dict)
    looked_ms: int | None = None

    @property
    def topics(self) -> list[str]:
        """What its members subscribe to, each once."""
        return sorted({topic for member in self.members.values() for topic in member.topics})


class ShareMembers:
    """Belongs to the event loop."""

    def __init__(self, session_ms: int, memory: ShareMemory) -> None:
        self._session_ms = session_ms
        self._memory = memory
        self._groups: dict[str, ShareGroup] = {}

    def group(self, name: str, now_ms: int) -> ShareGroup | None:
        """The group with the members that it has now; None: it has none."""
        group = self._groups.get(name)
        if group is not None:
            for member in [one for one in group.members.values() if one.ends_ms <= now_ms]:
                self._remove(name, group, member)
        return self._groups.get(name)

    def join(self, name: str, member: ShareMember, now_ms: int) -> ShareGroup:
        """Take a member in, or anew. Raises ``TooManyShareMembers``; ``UnknownShareMember`` for another's id."""
        group = self.group(name, now_ms) or ShareGroup()
        known = group.members.get(member.member_id)
        if known is not None and known.owner != member.owner:
            raise UnknownShareMember
        if known is None and len(group.members) >= MEMBERS_MAX:
            raise TooManyShareMembers
        self._take(member.size_bytes - (0 if known is None else known.size_bytes))
        group.members[member.member_id] = member
        self._groups[name] = group
        group.epoch += 1
        group.looked_ms = None
        member.ends_ms = now_ms + self._session_ms
        return group

    def member(self, name: str, member_id: str, owner: str, now_ms: int) -> tuple[ShareGroup, ShareMember]:
        """A member of the group. Raises ``UnknownShareMember``."""
        group = self.group(name, now_ms)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or member.owner != owner:
            raise UnknownShareMember
        return group, member

    def go_on(self, member: ShareMember, epoch: int, now_ms: int) -> None:
        """The member is there. Raises ``FencedShareMember``."""
        if epoch not in (member.epoch, member.epoch_before):
            raise FencedShareMember
        member.ends_ms = now_ms + self._session_ms

    def subscribe(self, group: ShareGroup, member: ShareMember, topics: tuple[str, ...]) -> None:
        """The member reads these topics from now on. Raises ``TooManyShareMembers``."""
        if topics == member.topics:
            return
        self._take(TOPIC_BYTES * (len(topics) - len(member.topics)))
        member.topics = topics
        group.epoch += 1
        group.looked_ms = None

    def leave(self, name: str, group: ShareGroup, member: ShareMember) -> None:
        """It is no member any more."""
        self._remove(name, group, member)

    def _take(self, more: int) -> None:
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


def told(group: ShareGroup, member: ShareMember) -> bool:
    """Give the member what it reads now; whether that is news."""
    assigned = {topic: group.known[topic] for topic in member.topics if topic in group.known}
    is_news = assigned != member.assigned
    if is_news or member.epoch == 0:
        group.epoch += is_news
        member.epoch_before, member.epoch = member.epoch or group.epoch, group.epoch
        member.assigned = assigned
    return is_news
