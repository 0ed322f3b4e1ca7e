"""Processes of the gateway, started by fork where that is possible: what ``subprocess.Popen`` would take a second of CPU for."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import BinaryIO

from tests.support.fork_server import NUMBER

ROOT = Path(__file__).resolve().parents[2]
ENDED_SECONDS_MAX = 60
GATEWAY = (sys.executable, "-m", "gateway")
STUB = (sys.executable, "-W", "error", "-m", "tests.support.stub_gateway")
"""The HTTP shell around an engine that keeps nothing."""


class Forked:
    """A gateway. Its members do what those of ``subprocess.Popen`` do."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: BinaryIO | None,
        errors: BinaryIO,
    ) -> None:
        self.stdout: BinaryIO | None = None
        self.returncode: int | None = None
        request = json.dumps(
            {"program": program, "arguments": list(arguments), "environment": dict(environment)}
        ).encode()
        self._told, telling = os.pipe()
        with ExitStack() as ours:
            ours.callback(os.close, telling)
            if output is None:
                reading, writing = os.pipe()
                self.stdout = os.fdopen(reading, "rb")
                output = ours.enter_context(os.fdopen(writing, "wb"))
            socket.send_fds(_server(), [request], [output.fileno(), errors.fileno(), telling])
        self.pid = self._number()

    def poll(self) -> int | None:
        """The status, once it has ended."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """The status. Raises ``subprocess.TimeoutExpired``."""
        found = self._ended_within(timeout)
        if found is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("gateway", timeout)
        return found

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._told, select.POLLIN)
            if waiting.poll(None if seconds is None else seconds * 1000):
                self.returncode = self._number()
                os.close(self._told)
        return self.returncode

    def _number(self) -> int:
        data = os.read(self._told, NUMBER.size)
        assert data, "the fork server is gone"
        number: int = NUMBER.unpack(data)[0]
        return number


Started = Forked | subprocess.Popen[bytes]


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: BinaryIO,
    *,
    output: BinaryIO | None = None,
    directory: Path | None = None,
) -> Started:
    """Standard error goes to the log, standard output to ``output`` or a pipe.

    A gateway of another ``directory`` may be another release: it is no fork of this one. Neither is one with another
    ``PYTHONPATH``, by which faults are planted.
    """
    is_alike = environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH")
    if sys.platform == "linux" and directory is None and is_alike:
        for name, program in (("gateway", GATEWAY), ("stub", STUB)):
            if tuple(command[: len(program)]) == program:
                return Forked(name, command[len(program) :], environment, output, log)
    return subprocess.Popen(command, stdout=output or subprocess.PIPE, stderr=log, env=environment, cwd=directory)


def ended(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """The status of one that refuses to start, and what it writes to standard error."""
    with tempfile.TemporaryFile() as errors:
        process = start(command, environment, errors)
        status = process.wait(ENDED_SECONDS_MAX)
        assert process.stdout is not None
        process.stdout.close()
        errors.seek(0)
        return status, errors.read().decode()


@cache
def _server() -> socket.socket:
    """Where one for this process is asked. It ends when this end of the socket is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
