"""What each test file costs in CPU time, with all processes that its tests start: the dearest files are listed when a run ends.

Wall time says how busy the machine was. CPU time hardly depends on that, so it is what a test is judged by.

A process is counted while it runs, and afterwards by whoever waited for it. A process is lost that outlives its parent. What a
server of the session does for a file (MinIO, Spark, the browser) is the file's whose tests run on the worker.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LISTED = 10
"""Number of files that are listed, for runs of at least twice as many."""
PROC = Path("/proc")


class CpuOfFiles:
    """Plugin of pytest: of workers, each of which tells what it spent, and of the process that lists the sum."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._until_now = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """The last test of a file on this worker ends what the file has cost."""
        ended = yield
        if nextitem is None or nextitem.path != item.path:
            now = cpu_seconds()
            self.seconds[item.nodeid.split("::")[0]] += max(0, now - self._until_now)
            self._until_now = now
        return ended

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker tells what it spent."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu_seconds_of_files"] = dict(self.seconds)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker that crashed has told nothing."""
        for name, seconds in getattr(node, "workeroutput", {}).get("cpu_seconds_of_files", {}).items():
            self.seconds[name] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the dearest files of a run of many."""
        if len(self.seconds) < 2 * LISTED:
            return
        terminalreporter.section("files that took most CPU time, with the processes that their tests started")
        for name, seconds in sorted(self.seconds.items(), key=lambda one: -one[1])[:LISTED]:
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")
        terminalreporter.write_line(f"{sum(self.seconds.values()):7.1f} s  all {len(self.seconds)} files")


def cpu_seconds() -> float:
    """CPU time of this process and of all that descend from it; without ``/proc``, of those for which it waited."""
    own = os.times()
    total: float = own.user + own.system + own.children_user + own.children_system
    if PROC.exists():
        total += sum(_of_descendants())
    return total


def _of_descendants() -> Generator[float]:
    """The CPU seconds of each that runs, with those for which it waited."""
    parents, ticks = {}, {}
    for process in PROC.iterdir():
        if process.name.isdigit():
            try:
                # The command's name, in parentheses, may have any characters. The state follows, then the parent.
                fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(process.name)] = int(fields[1])
            ticks[int(process.name)] = sum(map(int, fields[11:15]))
    per_second = os.sysconf("SC_CLK_TCK")
    found = {os.getpid()}
    while found:
        found = {one for one, parent in parents.items() if parent in found}
        yield from (ticks[one] / per_second for one in found)
