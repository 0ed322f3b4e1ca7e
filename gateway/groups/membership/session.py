"""A coordinator's memory of a member besides its row: when it last heard of the member, and what it told it."""

from __future__ import annotations

from dataclasses import dataclass

from log_format.groups.row import MemberRow, Partitions


@dataclass(slots=True)
class Session:
    """A member's state besides its row; times are monotonic milliseconds."""

    seen_ms: int
    timeout_ms: int
    acknowledged: int
    learned_ms: int | None = None
    """Time since which the member knows of a generation that it has not acknowledged; None if it knows of none."""
    polls: int = 0
    """Number of waiting polls: a member that waits is alive."""
    turn: int = 0
    """Position at which the member's next poll begins, so that no partition is always the last."""
    acknowledge_ms: int | None = None
    """Time that the member may take to acknowledge a generation that it knows of; None: as long as its session."""
    is_released: bool = False
    """Whether this static member said that it will come back: then its next instance may take its place."""
    owned: Partitions | None = None
    """Partitions that a client of Kafka's consumer protocol (KIP-848) says that it reads; None: it has not said so since it was
    given more."""
    assigned: Partitions | None = None
    """Partitions that such a client was last told to read."""
    is_inherited: bool = False
    """Whether an earlier coordinator took the member in, and this one has not heard what the member acknowledged there. That may
    be newer than the row, since an acknowledgement is written only if the member lost partitions."""
    is_ended: bool = False
    """Whether the member is out, and is told so. Its partitions are free only once its session is over by its own clock, too: the
    answer that told it of a generation may have been lost, and the next answer may have told it that all is well."""

    def deadline_ms(self, now_ms: int) -> int:
        """Return when to look at the session again, unless something happens before."""
        if self.is_ended:
            return self.over_ms
        seen_ms = now_ms if self.polls else self.seen_ms
        ends_ms = seen_ms + self.timeout_ms
        if self.learned_ms is None:
            return ends_ms
        return min(ends_ms, self.learned_ms + (self.acknowledge_ms or self.timeout_ms))

    @property
    def over_ms(self) -> int:
        """Time from which the member must know that its session is over."""
        return self.seen_ms + self.timeout_ms


def inherit_session(member: MemberRow, seen_ms: int) -> Session:
    """Return the session of a member that the group's new coordinator finds in the row."""
    session = new_session(member, seen_ms)
    session.is_inherited = True
    return session


def new_session(member: MemberRow, seen_ms: int) -> Session:
    """Return the session of a member that a row of the table has, or will have."""
    return Session(seen_ms, member.session_timeout_ms, member.acknowledged, acknowledge_ms=member.rebalance_timeout_ms)
