"""Child processes that never outlive the demo, however it ends (short of being killed itself).

Each is the leader of a process group of its own. A Ctrl-C in the terminal reaches the demo only, which then ends its children
in order. What a child started (Spark's Java) ends with it.
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
"""How much of a child's log an error quotes."""

POLL_SECONDS: Final = 0.05
"""How often the demo looks whether a child has ended."""


class ChildFailed(RuntimeError):
    """A child process ended, or did not come up; the text has the end of its log."""


class ChildProcess:
    """``python -m module arguments``, with its output in ``log``; on leaving the context it is ended.

    ``environment`` is added to the demo's own. SIGTERM to its group first; what is left of it after ``grace_seconds`` is killed.
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
        """Raises ``ChildFailed`` when the process has ended; with ``may_end`` only when it failed."""
        assert self._process is not None
        code = self._process.poll()
        if code is not None and not (may_end and code == 0):
            raise self.failure(f"ended with exit code {code}")

    def wait(self, timeout_seconds: float) -> None:
        """Until it has ended by itself. Raises ``ChildFailed`` for an exit code other than 0, or when it takes longer."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_seconds
        while (code := self._process.poll()) is None:
            if time.monotonic() > deadline:
                raise self.failure(f"did not end within {timeout_seconds:.0f} s")
            time.sleep(POLL_SECONDS)
        if code != 0:
            raise self.failure(f"ended with exit code {code}")

    def failure(self, what: str) -> ChildFailed:
        """An error that says what happened to the process, with the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return ChildFailed("\n".join([f"{self.name} {what}. The end of {self.log}:", *lines]))


def _group_lives(leader: subprocess.Popen[bytes]) -> bool:
    """Whether the process, or anything that it started in its group, still runs."""
    leader.poll()  # a child that has ended stays in its group until it is asked for its exit code
    try:
        os.killpg(leader.pid, 0)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group that has only ended
        return False
    return True
