"""What a coordinator knows of a member besides its row: when it heard of it, and what it told it."""

from __future__ import annotations

from dataclasses import dataclass

from log_format.groups.row import MemberRow, Partitions


@dataclass(slots=True)
class Session:
    """A member besides its row; times are monotonic milliseconds."""

    seen_ms: int
    timeout_ms: int
    acknowledged: int
    learned_ms: int | None = None
    """Since when the member knows of a generation that it has not acknowledged."""
    polls: int = 0
    """Waiting polls: a member that waits is alive."""
    turn: int = 0
    """Where the member's next poll begins, so that no partition is always the last."""
    acknowledge_ms: int | None = None
    """How long it may take to acknowledge a generation that it knows of; None: as long as its session."""
    is_released: bool = False
    """A static member that said that it will come back: its next instance may take its place."""
    owned: Partitions | None = None
    """What a client of Kafka's consumer protocol (KIP-848) says that it reads; None: it has not, since it was given more."""
    assigned: Partitions | None = None
    """What such a client was last told to read."""
    is_inherited: bool = False
    """An earlier coordinator took the member in, and this one has not heard what it acknowledged there. That may be newer than
    what the row has, since an acknowledgement is written only where the member lost partitions."""
    is_ended: bool = False
    """The member is out, and is told so. Its partitions are free only once its session is over by its own clock, too. The answer
    that told it of a generation may have been lost, and the next answer may have told it that all is well."""

    def deadline_ms(self, now_ms: int) -> int:
        """When to look at the session again, unless something happens before."""
        if self.is_ended:
            return self.over_ms
        seen_ms = now_ms if self.polls else self.seen_ms
        ends_ms = seen_ms + self.timeout_ms
        if self.learned_ms is None:
            return ends_ms
        return min(ends_ms, self.learned_ms + (self.acknowledge_ms or self.timeout_ms))

    @property
    def over_ms(self) -> int:
        """From then on the member can't believe any more to be one."""
        return self.seen_ms + self.timeout_ms


def inherited(member: MemberRow, seen_ms: int) -> Session:
    """The session of a member that the group's new coordinator finds in the row."""
    session = session_of(member, seen_ms)
    session.is_inherited = True
    return session


def session_of(member: MemberRow, seen_ms: int) -> Session:
    """The session of a member that a row of the table has, or will have."""
    return Session(seen_ms, member.session_timeout_ms, member.acknowledged, acknowledge_ms=member.rebalance_timeout_ms)
