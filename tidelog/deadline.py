"""Deadlines by the monotonic clock."""

from __future__ import annotations

import math
import time

from tidelog import limits


class Deadline:
    """Moment ``timeout_ms`` from its creation; None: never."""

    __slots__ = ("_at", "_late_ms")

    def __init__(self, timeout_ms: float | None) -> None:
        self._late_ms = min(limits.LATE_MS_MAX, math.inf if timeout_ms is None else timeout_ms / 10)
        self._at = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1000

    def remaining_ms(self) -> float:
        """Return the milliseconds left: 0 when it has passed, infinity when there is no deadline."""
        return max(0.0, (self._at - time.monotonic()) * 1000)

    def remaining_s(self) -> float | None:
        """Return the seconds left in the standard library's form: None when there is no deadline."""
        return None if self._at == math.inf else self.remaining_ms() / 1000

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._at

    @property
    def near(self) -> bool:
        """Whether so little time is left that an operation begun now would most likely be cut off."""
        return self.remaining_ms() <= self._late_ms
