"""Whether something is cheap, on a machine that does other work, too.

Neighbours only make a call longer: they take the processor's caches and half of its core. The quickest of several runs says what
the call costs, so one within the bound is enough. What is too slow is so each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

RUNS = 5


def cpu_seconds(call: Callable[[], object]) -> float:
    """Of this process, for one run."""
    begun = time.process_time()
    call()
    return time.process_time() - begun


def is_cheap(call: Callable[[], object], seconds: float) -> bool:
    """Whether one of a few runs takes less of a processor."""
    return any(cpu_seconds(call) < seconds for _ in range(RUNS))
