"""A client's share sessions: the partitions that it fetches, and the records that it has acquired and not yet acknowledged.

1. A session belongs to one connection and ends with it; its acquired records are then released.
2. A request names the epoch that the session expects: 0 opens a session, -1 closes it. Any other epoch is from an earlier
   attempt.
3. Acknowledgements name offsets only, so the session stores the lease of each acquired record. An expired lease is dropped.

No I/O; times are monotonic milliseconds. Source: KIP-932 (ShareFetch, ShareAcknowledge).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from gateway.kafka.shares.members import ShareMemory

SESSIONS_MAX: Final = 16
"""Most sessions of a connection. A consumer has one."""
SESSION_BYTES: Final = 1_024
PARTITION_BYTES: Final = 512
RANGE_BYTES: Final = 256
"""Memory of a session, of each of its partitions, and of each range of acquired offsets: measured on CPython 3.11, rounded up."""
EPOCH_MAX: Final = 2**31 - 1

Partition = tuple[UUID, int]
"""A topic's id, and a partition."""


class ShareSessionError(Exception):
    """The request does not fit the connection's sessions."""


class NoShareSession(ShareSessionError):
    """The connection has no such session."""


class WrongShareEpoch(ShareSessionError):
    """The session expects another epoch."""


class ShareSessionLimit(ShareSessionError):
    """The connection, or the gateway, has no room for another session or for more partitions."""


class AcquiredRange(NamedTuple):
    """Offsets ``first`` to ``last`` inclusive, acquired under one lease until ``until_ms``."""

    first: int
    last: int
    lease: str
    until_ms: int


class AcquiredRecords:
    """The records of one partition that a session has acquired: disjoint ranges, sorted by offset."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.ranges: list[AcquiredRange] = []

    def add(self, given: Iterable[AcquiredRange], now_ms: int) -> None:
        """Add acquired ranges. Older ranges that overlap them had leases that are over, and are dropped, as are expired ones."""
        new = sorted(given)
        firsts = [one.first for one in new]

        def is_given_anew(old: AcquiredRange) -> bool:
            at = bisect_right(firsts, old.last) - 1
            return at >= 0 and new[at].last >= old.first

        kept = [one for one in self.ranges if one.until_ms > now_ms and not is_given_anew(one)]
        self.ranges = sorted([*kept, *new])

    def split(self, first: int, last: int) -> list[AcquiredRange] | None:
        """Split the offsets by their leases; None if the session does not have all of them."""
        at = max(0, bisect_right(self.ranges, first, key=lambda one: one.first) - 1)
        found: list[AcquiredRange] = []
        while first <= last:
            if at == len(self.ranges) or not self.ranges[at].first <= first <= self.ranges[at].last:
                return None
            held = self.ranges[at]
            found.append(held._replace(first=first, last=min(last, held.last)))
            first, at = held.last + 1, at + 1
        return found

    def drop(self, pieces: Iterable[AcquiredRange]) -> None:
        """Remove these ranges, unless they were acquired anew since."""
        for piece in pieces:
            at = bisect_right(self.ranges, piece.first, key=lambda one: one.first) - 1
            if at < 0 or self.ranges[at].lease != piece.lease or self.ranges[at].last < piece.last:
                continue  # acquired anew meanwhile
            held = self.ranges[at]
            rest = (held._replace(last=piece.first - 1), held._replace(first=piece.last + 1))
            self.ranges[at : at + 1] = [one for one in rest if one.first <= one.last]

    def renew(self, pieces: Sequence[AcquiredRange], until_ms: int) -> None:
        """Extend the leases of these ranges."""
        self.drop(pieces)
        self.ranges = sorted([*self.ranges, *(piece._replace(until_ms=until_ms) for piece in pieces)])


@dataclass(eq=False, slots=True)
class ShareSession:
    """A share session. ``epoch``: epoch that the next request has to name. ``partitions``: fetched ones, in the client's
    order."""

    group: str
    member_id: str
    epoch: int = 1
    partitions: dict[Partition, None] = field(default_factory=dict)
    acquired: dict[Partition, AcquiredRecords] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Estimated memory of the session."""
        ranges = sum(len(one.ranges) for one in self.acquired.values())
        return SESSION_BYTES + PARTITION_BYTES * (len(self.partitions) + len(self.acquired)) + RANGE_BYTES * ranges


class ShareSessions:
    """The share sessions of one connection. Used on the event loop only."""

    def __init__(self, memory: ShareMemory) -> None:
        self._memory = memory
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def open(self, group: str, member_id: str) -> ShareSession:
        """Open a session; the caller first closes one that exists. Raise ``ShareSessionLimit``."""
        if len(self._sessions) >= SESSIONS_MAX or not self._memory.has_room(SESSION_BYTES):
            raise ShareSessionLimit
        session = self._sessions[group, member_id] = ShareSession(group, member_id)
        self._memory.count_bytes(session.size_bytes)
        return session

    def find(self, group: str, member_id: str) -> ShareSession | None:
        """Return the session, or None."""
        return self._sessions.get((group, member_id))

    def advance(self, group: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session, and advance the epoch that it expects. Raise ``NoShareSession``, ``WrongShareEpoch``."""
        session = self._sessions.get((group, member_id))
        if session is None:
            raise NoShareSession
        if session.epoch != epoch:
            raise WrongShareEpoch
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session

    def close(self, session: ShareSession) -> None:
        """Close the session. Idempotent."""
        if self._sessions.get((session.group, session.member_id)) is session:
            del self._sessions[session.group, session.member_id]
            self._memory.count_bytes(-session.size_bytes)

    def end(self) -> list[ShareSession]:
        """Close and return all sessions: the connection has ended."""
        sessions = list(self._sessions.values())
        for session in sessions:
            self.close(session)
        return sessions

    def update_partitions(
        self, session: ShareSession, added: Collection[Partition], forgotten: Iterable[Partition]
    ) -> None:
        """Add partitions to those that the session fetches, and remove others. Raise ``ShareSessionLimit``."""
        more = sum(1 for key in added if key not in session.partitions)
        if more and not self._memory.has_room(PARTITION_BYTES * more):
            raise ShareSessionLimit
        with self._counted(session):
            for key in forgotten:
                session.partitions.pop(key, None)
            session.partitions |= dict.fromkeys(added)

    def add_acquired(
        self, session: ShareSession, key: Partition, topic: str, given: Iterable[AcquiredRange], now_ms: int
    ) -> None:
        """Add acquired ranges to the session. They are already locked, so a lack of memory does not refuse them."""
        with self._counted(session):
            session.acquired.setdefault(key, AcquiredRecords(topic)).add(given, now_ms)

    def update_acquired(
        self, session: ShareSession, key: Partition, dropped: Iterable[AcquiredRange], renewed: Iterable[AcquiredRange]
    ) -> None:
        """Remove acquired ranges from the session, and extend the leases of others."""
        with self._counted(session):
            acquired = session.acquired.get(key)
            if acquired is not None:
                acquired.drop(dropped)
                for one in renewed:
                    acquired.renew([one], one.until_ms)
                if not acquired.ranges:
                    del session.acquired[key]

    @contextmanager
    def _counted(self, session: ShareSession) -> Iterator[None]:
        before = session.size_bytes
        yield
        if self._sessions.get((session.group, session.member_id)) is session:
            self._memory.count_bytes(session.size_bytes - before)
