"""Lower priority of the processes that a gateway starts: readers of history and SQL statements."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

NICE: Final = 10


def lower_priority(*, out_of_memory_score: int) -> None:
    """Ignore signals, which are for the gateway, and lower the priority: for CPU time, and for being kept when memory is
    short."""
    # SIGTTOU: logging to a terminal would otherwise stop a background process.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    # A terminal's Ctrl-C is for the gateway. A session of its own would not do: Linux may weigh sessions against each other
    # (``kernel.sched_autogroup_enabled``), and then ``NICE`` would have no effect relative to the gateway.
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    os.nice(NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(out_of_memory_score))
