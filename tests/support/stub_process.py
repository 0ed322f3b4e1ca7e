"""The HTTP shell around an engine that keeps nothing (``stub_gateway.py`` beside this), as a process."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import httpx
import psutil

from tests.support.forked import ROOT, STUB, start
from tests.support.no_trust import NO_TRUST

MEBIBYTE = 1024 * 1024


class StubProcess:
    """A running stub gateway: by fork, or ``as_program``."""

    def __init__(self, log_path: Path, *settings: str, drain_seconds: float = 0.0, as_program: bool = False) -> None:
        self.log_path = log_path
        environment = os.environ | {"STUB_DRAIN_SECONDS": str(drain_seconds)}
        with log_path.open("wb") as log:
            self.process = start([*STUB, *settings], environment, log, directory=ROOT if as_program else None)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url.startswith(("http://127.0.0.1:", "https://127.0.0.1:")), self.log()
        self.port = int(self.url.rpartition(":")[2])

    def log(self) -> str:
        return self.log_path.read_text()

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def connection_count(self) -> int:
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(connection.status != "LISTEN" for connection in found)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=20, verify=NO_TRUST)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
