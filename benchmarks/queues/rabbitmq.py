"""RabbitMQ beside queues: a quorum queue on one node, filled with publisher confirms, worked through in the same batches.

It needs Debian's package and a client: ``apt-get install rabbitmq-server``, ``pip install pika``. The node listens on 127.0.0.1
only, keeps its files in a directory of its own, and is ended by pid.

An acknowledgement (``basic.ack``, one for each batch) has no answer, so there is no latency of settling.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness.cpu import children_cpu_seconds, cpu_seconds
from benchmarks.harness.processes import free_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS_MAX = 180


class Node:
    """One node with its processes."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.port = port
        self._process = process
        self._seen = psutil.Process(process.pid)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all its processes so far."""
        return cpu_seconds(self._process.pid) + children_cpu_seconds(self._process.pid)

    def stop(self) -> None:
        """End all its processes, by pid."""
        family = [*self._seen.children(recursive=True), self._seen]
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.terminate()
        for one in psutil.wait_procs(family, timeout=30)[1]:
            one.kill()
        self._process.wait(10)


@contextlib.contextmanager
def node() -> Iterator[Node]:
    """Run a node with an empty store."""
    root = tempfile.mkdtemp(prefix="tidelog-bench-rabbitmq-")
    port, names_port = free_port(), free_port()
    (Path(root) / "enabled_plugins").write_text("[].\n")
    environment = os.environ | {
        "HOME": root,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names_port),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": f"{root}/mnesia",
        "RABBITMQ_LOG_BASE": f"{root}/log",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{root}/enabled_plugins",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
    }
    names = subprocess.Popen(["epmd", "-port", str(names_port), "-address", "127.0.0.1"], env=environment)
    running = None
    try:
        time.sleep(0.5)
        with Path(root, "out").open("wb") as log:
            running = Node(subprocess.Popen([str(SERVER)], env=environment, stdout=log, stderr=log), port)
        _wait(port, Path(root, "out"))
        yield running
    finally:
        if running is not None:
            running.stop()
        names.terminate()
        names.wait(10)
        shutil.rmtree(root, ignore_errors=True)


def fill(running: Node, count: int, value: bytes) -> float:
    """Publish so many persistent messages, each confirmed, and return the seconds that it took."""
    from benchmarks.queues.rabbitmq_client import publish  # noqa: PLC0415 - pika is there only for this

    began = time.perf_counter()
    _in_processes(publish, [(running.port, count // 2, value)] * 2)
    return time.perf_counter() - began


def work(running: Node, *, consumers: int, batch: int, seconds: float) -> tuple[int, float, float]:
    """Let processes take and acknowledge batches; return messages, seconds, and CPU seconds of the consumers."""
    from benchmarks.queues.rabbitmq_client import consume  # noqa: PLC0415

    found = _in_processes(consume, [(running.port, batch, seconds)] * consumers)
    return sum(one[0] for one in found), max(one[1] for one in found), sum(one[2] for one in found)


def _in_processes(call: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
    with multiprocessing.get_context("spawn").Pool(len(arguments)) as pool:
        return pool.starmap(call, arguments)


def _wait(port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
            return
        time.sleep(0.2)
    raise RuntimeError("RabbitMQ did not start:\n" + log.read_text(errors="replace")[-2000:])
