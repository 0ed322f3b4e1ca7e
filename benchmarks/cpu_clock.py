"""The CPU that another process has taken, by the scheduler's clock, in nanoseconds. Linux only.

Its user and system times are told in steps of 10 ms. A gateway that takes 15 ms a second would be measured by their noise.
"""

from __future__ import annotations

import time


def cpu_seconds(pid: int) -> float:
    """Of all its threads, ended ones too. Raises ``ProcessLookupError`` without such a process."""
    try:
        # The process's clock, as clock_getcpuclockid(3) names it.
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    except OSError as gone:
        raise ProcessLookupError(f"process {pid} is gone") from gone
