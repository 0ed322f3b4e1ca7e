"""A real gateway as a process of its own, as users start it, and what tests ask of it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.support.forked import GATEWAY, start
from tests.support.no_trust import NO_TRUST

SERVE = (sys.executable, "-m", "tidelog", "serve")
END_SECONDS_MAX = 90


class GatewayProcess:
    """Running when made. ``url`` stays the same over ``kill`` and ``start``, unless ``settings`` name a port.

    ``prefix`` goes before its command, ``settings`` behind it. ``environment`` is added to this process's.
    ``trust``: it speaks TLS.
    """

    def __init__(
        self,
        store: str | Path,
        log_path: Path,
        *settings: str,
        command: Sequence[str] = GATEWAY,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.store = str(store)
        self._log_path = log_path
        self._command = [*prefix, *command, "--store", self.store]
        self._settings = ("--log-level", "warning", *settings)
        self._environment = os.environ | dict(environment or {})
        self._directory = directory
        self._trust = trust
        self.port = 0
        self.start()

    def start(self) -> None:
        """Return when it listens; once more after ``kill`` or ``end``."""
        with self._log_path.open("ab") as log:
            command = [*self._command, "--port", str(self.port), *self._settings]
            self.process = start(command, self._environment, log, directory=self._directory)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        scheme = "http" if self._trust is None else "https"
        if f" listens on {scheme}://127.0.0.1:" not in line:
            self._gone()
            raise AssertionError(f"{line!r}\n{self.log()[-3000:]}")
        self.url = line.split(" listens on ")[1].split()[0].rstrip(",")
        self.port = int(self.url.rpartition(":")[2])
        self.operations_url = line.partition(", operations on ")[2].strip()
        self.http = httpx.Client(
            base_url=self.url, timeout=100, trust_env=False, verify=NO_TRUST if self._trust is None else self._trust
        )

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    def reset_peak(self) -> int:
        """Begin to measure ``peak_bytes`` anew; what the process holds now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self._status_bytes("VmRSS")

    def peak_bytes(self) -> int:
        """The most that the process held since ``reset_peak``."""
        return self._status_bytes("VmHWM")

    def _status_bytes(self, name: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))

    def metric(self, name: str) -> float:
        lines = self.http.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def topic(self, name: str, partition_count: int = 1, **config: Any) -> str:
        """Settings with underscores for dots; flushes at once unless told otherwise."""
        settings = {"flush.ms": 0} | {key.replace("_", "."): value for key, value in config.items()}
        body = {"name": name, "partition_count": partition_count, "config": settings}
        answer = self.http.post("/v1/topics", json=body)
        assert answer.status_code == 201, answer.text
        return name

    def produce(self, topic: str, *values: str, partition: int = 0) -> httpx.Response:
        body = {"records": [{"value": value} for value in values]}
        return self.http.post(f"/v1/topics/{topic}/partitions/{partition}/records", json=body)

    def fetch(self, topic: str, partition: int = 0, **query: Any) -> httpx.Response:
        return self.http.get(
            f"/v1/topics/{topic}/partitions/{partition}/records", params={"offset": "earliest"} | query
        )

    def read(self, topic: str, partition: int = 0) -> list[tuple[int, str]]:
        """(offset, value) of the whole partition."""
        found: list[tuple[int, str]] = []
        offset: int | str = "earliest"
        while True:
            answer = self.fetch(topic, partition, offset=offset, max_records=100_000, max_bytes=8 << 20)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            found += [(record["offset"], record["value"]) for record in page["records"]]
            offset = page["next_offset"]
            if offset == page["high_watermark"]:
                return found

    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End it as a power cut would."""
        self._gone()
        self.http.close()

    def end(self) -> int:
        """SIGTERM, and the status with which it ends."""
        if self.is_running():
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(END_SECONDS_MAX)
        finally:
            self.kill()

    def _gone(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


StartGateway = Callable[..., GatewayProcess]
"""The fixture ``start_gateway``: takes a store, settings, and what else ``GatewayProcess`` takes by name."""


@contextlib.contextmanager
def running_gateways() -> Iterator[list[GatewayProcess]]:
    """A list for gateways that are started in the block. At its end those that still run must end well."""
    started: list[GatewayProcess] = []
    try:
        yield started
        running = [gateway for gateway in started if gateway.is_running()]
        assert [gateway.end() for gateway in running] == [0] * len(running), [each.log()[-2000:] for each in running]
    finally:
        for gateway in started:
            if gateway.is_running():
                gateway.kill()


@contextlib.contextmanager
def running_gateway(store: str | Path, log_path: Path, *settings: str, **more: Any) -> Iterator[GatewayProcess]:
    """One gateway for the time of the block; it must end well."""
    with running_gateways() as started:
        started.append(GatewayProcess(store, log_path, *settings, **more))
        yield started[0]
