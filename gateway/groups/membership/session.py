"""What a coordinator knows of a member besides its row: when it was heard, and what it was told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Session:
    """What is known of a member besides its row; times are monotonic milliseconds."""

    seen_ms: int
    timeout_ms: int
    acknowledged: int
    learned_ms: int | None = None
    """Since when it knows of a generation that it has not acknowledged."""
    polls: int = 0
    """Polls that are waiting: a member that waits is alive."""
    turn: int = 0
    """Where its next poll begins, so that no partition is always the last."""
    is_ended: bool = False
    """It is out and is told so. Its partitions are another's only when its session is over by its own clock, too: an answer that
    told it of a generation may have been lost, and the next one have told it that all is well."""

    def deadline_ms(self, now_ms: int) -> int:
        """When to look at it again, unless something happens before."""
        if self.is_ended:
            return self.over_ms
        seen_ms = now_ms if self.polls else self.seen_ms
        return min(seen_ms, self.learned_ms if self.learned_ms is not None else seen_ms) + self.timeout_ms

    @property
    def over_ms(self) -> int:
        """From when on it can't believe any more to be a member."""
        return self.seen_ms + self.timeout_ms
