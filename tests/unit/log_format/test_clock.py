"""The machine's clock, as durations are measured with it."""

from __future__ import annotations

import time

import pytest

from log_format.clock import SystemClock


def test_durations_count_the_time_in_which_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A committer that was suspended with the machine must not trust what it saw before: of the system's clocks the one
    is read that goes on meanwhile."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system has no clock that goes on in its sleep")
    slept_ns = 3_600_000_000_000
    readings = {time.CLOCK_MONOTONIC: 5_000_000_000, time.CLOCK_BOOTTIME: 5_000_000_000 + slept_ns}
    monkeypatch.setattr(time, "clock_gettime_ns", readings.__getitem__)
    monkeypatch.setattr(time, "monotonic_ns", lambda: readings[time.CLOCK_MONOTONIC])
    assert SystemClock().monotonic_ms() == 5_000 + slept_ns // 1_000_000


def test_the_clock_runs_in_milliseconds_and_sleep_takes_its_time() -> None:
    """What ``sleep_ms`` waits is what ``monotonic_ms`` then shows at least."""
    clock = SystemClock()
    before_ms = clock.monotonic_ms()
    clock.sleep_ms(20)
    assert 19 <= clock.monotonic_ms() - before_ms < 60_000
