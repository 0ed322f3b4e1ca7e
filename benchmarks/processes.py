"""The measured processes: started on 127.0.0.1, their CPU and memory read from the system, ended by pid."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import psutil

from benchmarks.cpu_clock import cpu_seconds

START_SECONDS_MAX = 60


def free_port() -> int:
    """A port of 127.0.0.1 on which no process listens now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """Return once it takes connections. Raises ``RuntimeError`` where it does not in ``START_SECONDS_MAX``."""
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
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Start it in ``directory``, and wait until ``ready_path`` answers; None: until the port takes connections."""
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
        self._seen = psutil.Process(self._process.pid)
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
        """Of the process."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self._process.pid)

    def rss_peak_bytes(self) -> int:
        """The largest resident size so far (VmHWM)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found.group(1)) * 1024 if found else self._seen.memory_info().rss

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


def call(port: int, method: str, path: str, body: object | None = None) -> dict[str, object]:
    """One JSON request outside the measurement."""
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(sent, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else {}


def gateway(
    store: str,
    environment: dict[str, str] | None = None,
    settings: Sequence[str] = (),
    directory: Path | None = None,
    *,
    nice: int = 0,
) -> AbstractContextManager[Server]:
    """A gateway on a store, with default settings except ``settings``. ``directory``: of the source; None: of this one."""
    port = free_port()
    command = [*(["nice", "-n", str(nice)] if nice else []), sys.executable, "-m", "gateway", "--store", store]
    command += ["--host", "127.0.0.1", "--port", str(port), *settings]
    return _running(Server(command, port, "/readyz", environment, directory))


def floor_server() -> AbstractContextManager[Server]:
    """FastAPI and uvicorn alone: reads each body and answers (``floor_server.py``)."""
    return _other_server("floor_server")


def bare_server() -> AbstractContextManager[Server]:
    """uvicorn alone: reads each body and answers (``bare_server.py``)."""
    return _other_server("bare_server")


def _other_server(name: str) -> AbstractContextManager[Server]:
    port = free_port()
    return _running(Server([sys.executable, "-m", f"benchmarks.{name}", str(port)], port, "/readyz"))


@contextlib.contextmanager
def _running(server: Server) -> Iterator[Server]:
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def directory() -> Iterator[str]:
    """An empty directory as a store."""
    path = tempfile.mkdtemp(prefix="tidelog-bench-")
    try:
        yield f"file://{path}"
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def minio() -> Iterator[tuple[str, dict[str, str], Server]]:
    """A MinIO server with an empty bucket: its URI, the environment that reaches it, the process."""
    cache = Path(os.environ.get("TIDELOG_CACHE", Path.home() / ".cache" / "tidelog"))
    path = tempfile.mkdtemp(prefix="tidelog-bench-minio-")
    port = free_port()
    keys = {
        "MINIO_ROOT_USER": "tidelog",
        "MINIO_ROOT_PASSWORD": "tidelog-local",
        "MINIO_BROWSER": "off",
        "MINIO_PROMETHEUS_AUTH_TYPE": "public",
    }
    command = [str(cache / "bin" / "minio"), "server", path, "--address", f"127.0.0.1:{port}", "--quiet"]
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "tidelog",
        "AWS_SECRET_ACCESS_KEY": "tidelog-local",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server = Server(command, port, "/minio/health/live", keys)
    try:
        (Path(path) / "bench").mkdir()
        yield "s3://bench/log", environment, server
    finally:
        server.stop()
        shutil.rmtree(path, ignore_errors=True)
