"""Time that moves when a test says so."""

from __future__ import annotations

from log_format.clock import SystemClock

EPOCH_MS = 1_763_683_200_000
"""Wall time where a test begins."""
HOUR_MS = 3_600_000


class ManualClock:
    """A ``Clock`` that stands still but for ``sleep_ms`` and ``pass_ms``; ``slept`` notes every sleep."""

    def __init__(self) -> None:
        self.elapsed_ms = 0
        self.slept: list[int] = []

    def now_ms(self) -> int:
        return EPOCH_MS + self.elapsed_ms

    def monotonic_ms(self) -> int:
        return self.elapsed_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.slept.append(duration_ms)
        self.elapsed_ms += duration_ms

    def pass_ms(self, duration_ms: int) -> None:
        self.elapsed_ms += duration_ms


class LaterClock(SystemClock):
    """The system's, some time later."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms
