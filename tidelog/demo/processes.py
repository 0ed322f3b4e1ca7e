"""Child processes that never outlive the demo, however it ends (unless it is killed itself).

Each is the leader of its own process group. A Ctrl-C in the terminal reaches only the demo, which then ends its children in
order. Processes started by a child (Spark's Java) end with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tidelog.programs import SAFE_PATH, command

LOG_LINES_SHOWN: Final = 15
"""Lines of a child's log quoted in an error."""

POLL_SECONDS: Final = 0.05
"""Interval at which the demo checks whether a child has ended."""


class ChildFailed(RuntimeError):
    """A child process ended or did not start; the message has the end of its log."""


class ChildProcess:
    """Process ``python -m module arguments``, with its output in ``log``; it is ended when the context is left.

    ``environment`` is added to the demo's own. Its group gets SIGTERM, and SIGKILL after ``grace_seconds``.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        *,
        grace_seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = command(module, arguments)
        self._grace_seconds = grace_seconds
        self._environment = dict(os.environ) | dict(environment or {}) | dict(SAFE_PATH)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process is not None
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._grace_seconds
        while _group_lives(process):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(POLL_SECONDS)
        process.wait()

    def check(self, *, may_end: bool = False) -> None:
        """Raise ``ChildFailed`` if the process has ended; with ``may_end`` only if it failed."""
        assert self._process is not None
        code = self._process.poll()
        if code is not None and not (may_end and code == 0):
            raise self.failure(f"ended with exit code {code}")

    def wait(self, timeout_seconds: float) -> None:
        """Wait until the process ends. Raises ``ChildFailed`` for an exit code other than 0, or after the timeout."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_seconds
        while (code := self._process.poll()) is None:
            if time.monotonic() > deadline:
                raise self.failure(f"did not end within {timeout_seconds:.0f} s")
            time.sleep(POLL_SECONDS)
        if code != 0:
            raise self.failure(f"ended with exit code {code}")

    def failure(self, what: str) -> ChildFailed:
        """Return an error about the process, with the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return ChildFailed("\n".join([f"{self.name} {what}. The end of {self.log}:", *lines]))


def _group_lives(leader: subprocess.Popen[bytes]) -> bool:
    """Return whether the process, or any that it started in its group, still runs."""
    leader.poll()  # an ended child stays in its group until its exit code is read
    try:
        os.killpg(leader.pid, 0)
    except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of ended processes
        return False
    return True
