"""How the processes that a gateway starts beside itself, readers of history and statements, yield to it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

NICE: Final = 10


def yield_to_gateway(*, out_of_memory_score: int) -> None:
    """Leave signals to the gateway, and yield to other processes: for the processor, and to the kernel where memory is short."""
    # SIGTTOU: what it logs to a terminal would stop a process that is not of the foreground.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    # A terminal's Ctrl-C is for the gateway. A session of its own would not do: Linux may weigh sessions against each other
    # (``kernel.sched_autogroup_enabled``), and then ``NICE`` would say nothing about this process beside its gateway.
    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    os.nice(NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(out_of_memory_score))
