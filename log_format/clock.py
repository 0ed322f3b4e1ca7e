"""Time as an argument, so that a simulation can control it."""

from __future__ import annotations

import time
from typing import Final, Protocol

_MONOTONIC: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine is suspended, where there is such a clock. A committer that trusts the head for some time must
notice that its machine slept."""


class Clock(Protocol):
    """Wall time for what people see, monotonic time for durations, and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment; never goes back. Time in which the machine slept counts where it can be known."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Return after ``duration_ms``."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since the machine started, suspended or not (CLOCK_BOOTTIME); without suspended time where unknown."""
        return time.clock_gettime_ns(_MONOTONIC) // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Block this thread for ``duration_ms``."""
        time.sleep(duration_ms / 1000)
