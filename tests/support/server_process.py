"""A server as a process of its own, on a fixed port: it can be killed, frozen and started again. Ended by its id."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import urllib3

from tests.support.forked import Started, start
from tests.support.waiting import until

START_SECONDS_MAX = 240
"""On a machine that is busy with a whole test suite."""


PORTS = range(20_000, 32_768)
"""Linux gives those above to connections: one of a busy test suite could take a port before its server listens."""


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens now."""
    while True:
        port = PORTS[secrets.randbelow(len(PORTS))]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class ServerProcess:
    """``ready``: the path that is answered with 200 once it serves. ``environment`` is added to this process's."""

    def __init__(
        self, name: str, command: Sequence[str], port: int, ready: str, environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._command = command
        self._ready = ready
        self._environment = {**os.environ, **environment}
        self._log = log
        self._process: Started | None = None
        self.frozen = False

    @property
    def process_id(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it; with ``wait`` until it answers. Raises ``RuntimeError`` when it does not."""
        with self._log.open("ab") as output:
            self._process = start(self._command, self._environment, output, output=output)
        self.frozen = False
        if not wait:
            return
        deadline = time.monotonic() + START_SECONDS_MAX
        with urllib3.PoolManager(retries=False, timeout=2) as http:
            while time.monotonic() < deadline and self._process.poll() is None:
                with contextlib.suppress(urllib3.exceptions.HTTPError):
                    if http.request("GET", self.url + self._ready).status == 200:
                        return
                time.sleep(0.05)
        self.kill()
        raise RuntimeError(f"{self.name} does not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self.frozen = number is signal.SIGSTOP

    def freeze(self) -> None:
        """Let it stand still. On a busy machine some of its threads go on for a moment behind the signal: this waits for them."""
        self.signal(signal.SIGSTOP)
        if self.frozen:
            tasks = Path(f"/proc/{self.process_id}/task")
            until(lambda: all(_is_still(task) for task in tasks.iterdir()), what=f"{self.name} does not stand still")

    def thaw(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> int | None:
        """End it as an operator would; its exit code."""
        if self._process is None:
            return None
        self.thaw()
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


def _is_still(task: Path) -> bool:
    """Whether this thread is stopped, or has ended meanwhile."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (task / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return True
