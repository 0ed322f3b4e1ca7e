"""A member of a classic group in its coordinator's memory, and its request to join."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from gateway.engine.outcome import settle
from gateway.groups.bounds import FORMER_IDS_MAX
from gateway.groups.classic.consumer_protocol import (
    PROTOCOL_TYPE,
    assigned_partitions,
    subscribed_topics,
    subscription_of,
)
from log_format.errors import TidelogError
from log_format.groups.memory import member_bytes
from log_format.groups.row import ClassicMember, MemberRow, Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicJoinRequest:
    """A request to join. ``member_id`` empty: a new member."""

    member_id: str
    instance_id: str | None
    client_id: str | None
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Names of protocols with the member's metadata, the preferred one first."""
    reader: Reader | None = None
    requires_id: bool = False
    """Whether a new member gets its id first, and joins with it."""
    can_skip_assignment: bool = False
    """Whether the client understands an answer that tells the leader not to assign (``skip_assignment``, KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGeneration:
    """The generation that a member joined. ``members``: id, instance id and metadata of all, for the leader only."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: Sequence[tuple[str, str | None, bytes]] = ()
    skip_assignment: bool = False

    def unchanged_for(self, wish: ClassicJoinRequest, former_leader: str) -> ClassicGeneration:
        """Return the answer to a leader that is not to assign anew, since its generation goes on."""
        if wish.can_skip_assignment:
            return replace(self, skip_assignment=True)
        return replace(self, leader=former_leader, members=())  # Its client must not take itself for the leader.


@dataclass(slots=True, eq=False, kw_only=True)
class Member:
    """A member of a classic group. Times are monotonic milliseconds."""

    member_id: str
    wish: ClassicJoinRequest
    seen_ms: int
    assignment: bytes = b""
    former_ids: tuple[str, ...] = ()
    has_synced: bool = False
    release: Callable[[object], None] = lambda _: None
    """Function that releases the memory counted for the member, which is called once the table has it."""
    joining: asyncio.Future[ClassicGeneration] | None = None
    """Future of a join that waits for the next generation."""
    syncing: asyncio.Future[bytes] | None = None
    """Future of a sync that waits for the leader's assignment."""
    metadata_by_protocol: Mapping[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.metadata_by_protocol = dict(self.wish.protocols)

    @property
    def memory_bytes(self) -> int:
        """Approximate bytes of memory of the member before it is assigned anything."""
        return member_bytes(self.row(0, "", b"")) + sum(map(len, self.metadata_by_protocol.values()))

    def successor(self, member_id: str, wish: ClassicJoinRequest, seen_ms: int) -> Member:
        """Return the static member's next instance, with this one's assignment."""
        return Member(
            member_id=member_id,
            wish=wish,
            seen_ms=seen_ms,
            assignment=self.assignment,
            former_ids=(*self.former_ids, self.member_id)[-FORMER_IDS_MAX:],
            has_synced=self.has_synced,
            release=self.release,
        )

    def update(self, wish: ClassicJoinRequest) -> None:
        """Take over a repeated join's wish."""
        self.wish = wish
        self.metadata_by_protocol = dict(wish.protocols)

    def await_join(self, superseded: TidelogError) -> asyncio.Future[ClassicGeneration]:
        """Return a future that is settled with the next generation. A join that waits already fails with ``superseded``: its
        client has gone on."""
        self.fail_join(superseded)
        self.joining = asyncio.get_running_loop().create_future()
        return self.joining

    def await_sync(self, superseded: TidelogError) -> asyncio.Future[bytes]:
        """Return a future that is settled with the assignment. A sync that waits already fails with ``superseded``."""
        self.fail_sync(superseded)
        self.has_synced = True
        self.syncing = asyncio.get_running_loop().create_future()
        return self.syncing

    def begin(self, joined: ClassicGeneration, now_ms: int) -> None:
        """Answer the waiting join with the next generation."""
        self.has_synced, self.assignment = False, b""
        self.seen_ms = max(self.seen_ms, now_ms)
        if self.joining is not None:
            settle(self.joining, joined)
            self.joining = None

    def synced(self, assignment: bytes, now_ms: int) -> None:
        """Answer the waiting sync with the assignment, which is in the table."""
        self.assignment = assignment
        self.seen_ms = max(self.seen_ms, now_ms)
        if self.syncing is not None:
            settle(self.syncing, assignment)
            self.syncing = None

    def fail_join(self, error: TidelogError) -> None:
        """Answer the waiting join with an error."""
        if self.joining is not None:
            settle(self.joining, error)
            self.joining = None

    def fail_sync(self, error: TidelogError) -> None:
        """Answer the waiting sync with an error."""
        if self.syncing is not None:
            settle(self.syncing, error)
            self.syncing = None

    def fail(self, error: TidelogError) -> None:
        """Answer the waiting calls with an error."""
        self.fail_join(error)
        self.fail_sync(error)

    def deadline_ms(self, now_ms: int) -> int:
        """Return when the member's session ends. A member with a waiting call is alive."""
        waits = self.joining is not None or self.syncing is not None
        return (now_ms if waits else self.seen_ms) + self.wish.session_timeout_ms

    def row(self, generation: int, protocol: str, assignment: bytes) -> MemberRow:
        """Return the member's row for the table."""
        wish = self.wish
        metadata = self.metadata_by_protocol.get(protocol, b"")
        is_consumer = wish.protocol_type == PROTOCOL_TYPE
        return MemberRow(
            member_id=self.member_id,
            client_id=wish.client_id,
            instance_id=wish.instance_id,
            topics=subscribed_topics(metadata) if is_consumer else (),
            pattern=None,
            session_timeout_ms=wish.session_timeout_ms,
            target=assigned_partitions(assignment) if is_consumer else {},
            held={},
            acknowledged=generation,
            former_ids=self.former_ids,
            reader=wish.reader,
            rebalance_timeout_ms=wish.rebalance_timeout_ms,
            classic=ClassicMember(client_host=wish.client_host, metadata=metadata, assignment=assignment),
        )


def member_of(row: MemberRow, protocol_type: str, protocol: str, seen_ms: int) -> Member:
    """Return the member of a row of the table, which another gateway may have written."""
    classic = row.classic or ClassicMember(client_host="", metadata=b"", assignment=b"")
    metadata = subscription_of(row.topics) if classic.protocols else classic.metadata
    wish = ClassicJoinRequest(
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=row.client_id,
        client_host=classic.client_host,
        session_timeout_ms=row.session_timeout_ms,
        rebalance_timeout_ms=row.rebalance_timeout_ms or row.session_timeout_ms,
        protocol_type=protocol_type,
        protocols=tuple((name, metadata) for name in classic.protocols or (protocol,)),
        reader=row.reader,
    )
    return Member(
        member_id=row.member_id,
        wish=wish,
        seen_ms=seen_ms,
        assignment=classic.assignment,
        former_ids=row.former_ids,
        has_synced=True,
    )


def assigned_by_gateway(member_id: str, wish: ClassicJoinRequest) -> MemberRow:
    """Return the member's row in a group to whose members the gateway assigns partitions, before it has any."""
    host, names = wish.client_host, tuple(name for name, _ in wish.protocols)
    row = Member(member_id=member_id, wish=wish, seen_ms=0).row(-1, names[0], b"")
    return msgspec.structs.replace(
        row, classic=ClassicMember(client_host=host, metadata=b"", assignment=b"", protocols=names)
    )


def chosen_protocol(members: Sequence[Member]) -> str:
    """Return the protocol that all members know and most prefer; of several the one that the first member prefers."""
    known = [name for name, _ in members[0].wish.protocols if all(name in one.metadata_by_protocol for one in members)]
    votes = dict.fromkeys(known, 0)
    for member in members:
        votes[next(name for name, _ in member.wish.protocols if name in votes)] += 1
    return max(known, key=votes.__getitem__)
