"""What a coordinator knows of a member besides its row: when it heard of it, and what it told it."""

from __future__ import annotations

from dataclasses import dataclass


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
    is_ended: bool = False
    """The member is out, and is told so. Its partitions are free only once its session is over by its own clock, too. The answer
    that told it of a generation may have been lost, and the next answer may have told it that all is well."""

    def deadline_ms(self, now_ms: int) -> int:
        """When to look at the session again, unless something happens before."""
        if self.is_ended:
            return self.over_ms
        seen_ms = now_ms if self.polls else self.seen_ms
        return min(seen_ms, self.learned_ms if self.learned_ms is not None else seen_ms) + self.timeout_ms

    @property
    def over_ms(self) -> int:
        """From then on the member can't believe any more to be one."""
        return self.seen_ms + self.timeout_ms
