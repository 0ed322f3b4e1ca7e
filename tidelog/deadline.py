"""A moment by which something must be over."""

from __future__ import annotations

import math
import time

from tidelog import limits


class Deadline:
    """``timeout_ms`` from now; None: never."""

    __slots__ = ("_at", "_late_ms")

    def __init__(self, timeout_ms: float | None) -> None:
        self._late_ms = min(limits.LATE_MS_MAX, math.inf if timeout_ms is None else timeout_ms / 10)
        self._at = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1000

    def remaining_ms(self) -> float:
        """Milliseconds left, 0 when it has passed, infinity when it never does."""
        return max(0.0, (self._at - time.monotonic()) * 1000)

    def remaining_s(self) -> float | None:
        """Seconds left, as the standard library's time-outs have them: None when it never passes."""
        return None if self._at == math.inf else self.remaining_ms() / 1000

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self._at

    @property
    def near(self) -> bool:
        """Whether so little is left that what begins now would most likely be cut off by it."""
        return self.remaining_ms() <= self._late_ms
