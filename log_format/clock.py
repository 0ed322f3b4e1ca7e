"""Time as an argument, so that a simulation can control it."""

from __future__ import annotations

import time
from typing import Final, Protocol

_MONOTONIC: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Clock that also runs while the machine is suspended, if the system has one. A committer that trusts the head for some time must
notice that its machine slept."""


class Clock(Protocol):
    """The protocol of a clock: wall time for what people see, monotonic time for durations, and waiting."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment, never going back. Time in which the machine slept counts if it can be known."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait for ``duration_ms``."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds since the machine started (CLOCK_BOOTTIME, which counts suspended time, if the system has it)."""
        return time.clock_gettime_ns(_MONOTONIC) // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Block this thread for ``duration_ms``."""
        time.sleep(duration_ms / 1000)
