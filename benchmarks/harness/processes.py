"""The measured processes: gateways and floors, started on 127.0.0.1, their CPU and memory read from the system, ended by pid."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.cpu import children_cpu_seconds, cpu_seconds

ROOT: Final = Path(__file__).resolve().parents[2]
"""This tree of the source."""
START_SECONDS_MAX: Final = 60
MEET_SECONDS_MAX: Final = 30
PARTITIONS: Final = 8
"""Partitions of a topic, unless a benchmark says how many."""


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """Wait until a port takes connections. Raises ``RuntimeError`` after ``START_SECONDS_MAX``."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}")


class Server:
    """One process that listens on 127.0.0.1."""

    def __init__(
        self,
        command: list[str],
        port: int,
        ready_path: str | None,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Start it, and wait until it is ready.

        Args:
            command: the command line.
            port: on which it listens.
            ready_path: the path that answers when it is ready; None: it is ready when the port takes connections.
            environment: variables besides those of this process.
            directory: the working directory.
        """
        self.port = port
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=self._log,
            # One worker on any machine, unless a benchmark says how many.
            env={**os.environ, "TIDELOG_WORKERS": "1", **(environment or {})},
            cwd=directory,
        )
        self._wait(ready_path)

    def _wait(self, path: str | None) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                if path is None:
                    socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
                else:
                    urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=2).close()
                return
            time.sleep(0.05)
        self.stop()
        self._log.seek(0)
        raise RuntimeError("the server did not start:\n" + self._log.read().decode(errors="replace")[-2000:])

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the process so far."""
        return cpu_seconds(self._process.pid)

    def family_cpu_seconds(self) -> float:
        """Return the CPU seconds of the process and of all living processes below it."""
        return self.cpu_seconds() + self.children_cpu_seconds()

    def children_cpu_seconds(self) -> float:
        """Return the CPU seconds of all living processes below it: workers, readers of history."""
        return children_cpu_seconds(self._process.pid)

    def rss_peak_bytes(self) -> int:
        """Return the largest resident size so far (VmHWM)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1)) * 1024

    def stop(self) -> None:
        """End it, by pid, as an operator would."""
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def kill(self) -> None:
        """End it without notice, by pid."""
        self._process.kill()
        self._process.wait(10)


def call(port: int, method: str, path: str, body: object | None = None) -> Any:
    """Return the answer to one JSON request outside the measurement."""
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(sent, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else {}


def make_topic(
    port: int, name: str = "bench", partitions: int = PARTITIONS, config: Mapping[str, object] | None = None
) -> None:
    """Create a topic with default settings except ``config``."""
    call(port, "POST", "/v1/topics", {"name": name, "partition_count": partitions, "config": dict(config or {})})


def gateway(
    store: str,
    environment: Mapping[str, str] | None = None,
    settings: Sequence[str] = (),
    directory: Path | None = None,
    *,
    nice: int = 0,
) -> AbstractContextManager[Server]:
    """Run a gateway.

    Args:
        store: the URI of its store.
        environment: by which the store is reached.
        settings: options of the gateway; it has defaults for all others.
        directory: the tree of its source; None: this one.
        nice: its niceness.
    """
    port = free_port()
    command = [*(["nice", "-n", str(nice)] if nice else []), sys.executable, "-m", "gateway"]
    return running(Server([*command, *_options(store, port, settings)], port, "/readyz", environment, directory))


def noting_gateway(
    store: str,
    notes: Path,
    port: int,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    tree: Path = ROOT,
) -> Server:
    """Start a gateway that notes its requests to the store (``counted_gateway``); ``trace`` reads the notes.

    Args:
        store: the URI of its store.
        notes: the file of the notes.
        port: on which it listens.
        settings: options of the gateway.
        environment: by which the store is reached.
        tree: of its source. The program that notes is always this tree's.
    """
    # What the program imports is the other tree's: -P, so that no directory but that is searched first.
    program = [sys.executable, "-P", str(Path(__file__).with_name("counted_gateway.py")), str(notes)]
    reached = {**(environment or {}), "PYTHONPATH": str(tree)}
    return Server([*program, *_options(store, port, settings)], port, "/readyz", reached)


def _options(store: str, port: int, settings: Sequence[str]) -> list[str]:
    return ["--store", store, "--host", "127.0.0.1", "--port", str(port), *settings]


def floor_server() -> AbstractContextManager[Server]:
    """Run FastAPI and uvicorn alone: reads each body and answers (``floor_server.py``)."""
    return _other_server("floor_server")


def bare_server() -> AbstractContextManager[Server]:
    """Run uvicorn alone: reads each body and answers (``bare_server.py``)."""
    return _other_server("bare_server")


def _other_server(name: str) -> AbstractContextManager[Server]:
    port = free_port()
    command = [sys.executable, "-m", f"benchmarks.harness.{name}", str(port)]
    return running(Server(command, port, "/readyz", None, ROOT))


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Stop a server behind the block."""
    try:
        yield server
    finally:
        server.stop()


def meet(servers: Sequence[Server]) -> None:
    """Wait until each gateway knows all others. Raises ``RuntimeError`` after ``MEET_SECONDS_MAX``."""
    deadline = time.monotonic() + MEET_SECONDS_MAX
    while any(len(call(server.port, "GET", "/v1/cluster")["gateways"]) < len(servers) for server in servers):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(servers)} gateways did not find each other in {MEET_SECONDS_MAX} s")
        time.sleep(0.1)
