"""What tests of bad input and faults share: real gateways, producers that note every answer.

``start_gateway``   starts ``python -m gateway`` on a store; ended after the test
``send``            producers that send to gateways until they are stopped
``check_log``       proves that a log holds what was acknowledged, once, in its place, and nothing that was refused
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import urllib3


class GatewayProcess:
    """A running gateway. ``prefix`` goes before its command, ``settings`` behind it. ``trust``: it speaks TLS."""

    def __init__(
        self,
        store: str,
        log_path: Path,
        *settings: str,
        prefix: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._log_path = log_path
        command = [
            sys.executable,
            "-m",
            "gateway",
            "--store",
            store,
            "--port",
            "0",
            "--log-level",
            "warning",
            *settings,
        ]
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, *command], stdout=subprocess.PIPE, stderr=log, env=os.environ | (environment or {})
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert f" listens on {'http' if trust is None else 'https'}://127.0.0.1:" in line, (line, self.log())
        self.url = line.split(" listens on ")[1].split()[0]
        self.port = int(self.url.rpartition(":")[2])
        self.operations_url = line.partition(", operations on ")[2].strip()
        self.http = httpx.Client(
            base_url=self.url, timeout=100, trust_env=False, verify=True if trust is None else trust
        )

    def log(self) -> str:
        return self._log_path.read_text()

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

    def end(self) -> int:
        """SIGTERM, and the status with which it ends."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[Callable[..., GatewayProcess]]:
    """Start gateways of a test's own; a test that leaves one running wants it to end well."""
    started: list[GatewayProcess] = []

    def start(store: str, *settings: str, **more: Any) -> GatewayProcess:
        started.append(GatewayProcess(store, tmp_path / f"gateway-{len(started)}.log", *settings, **more))
        return started[-1]

    yield start
    running = [gateway for gateway in started if gateway.process.poll() is None]
    statuses = [gateway.end() for gateway in running]
    assert statuses == [0] * len(running), [gateway.log()[-2000:] for gateway in running]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One for a module's tests, on a directory; it keeps nothing in memory and cuts off who reads nothing for two seconds."""
    directory = tmp_path_factory.mktemp("faults")
    settings = ("--tail-cache-bytes-max", "0", "--footer-cache-bytes-max", "0", "--write-stall-ms", "2000")
    started = GatewayProcess(str(directory / "outside" / "store"), directory / "log", *settings)
    started.directory = directory / "outside"  # type: ignore[attr-defined]
    yield started
    assert started.end() == 0, started.log()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request and its answer; status 0: none came. Times are monotonic seconds."""

    partition: int
    values: tuple[str, ...]
    began: float
    ended: float
    status: int
    answer: dict[str, Any]
    retry_after: str | None
    never_sent: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether it is a promise that nothing happened."""
        return self.never_sent or (self.status != 0 and self.answer.get("may_have_happened") is False)


@dataclass(slots=True)
class Senders:
    """Producers in threads of their own. ``until`` ends a producer after an answer."""

    urls: Sequence[str]
    topic: str
    partition_count: int
    count: int
    until: Callable[[Sent], bool] = lambda _sent: False
    after_each: Callable[[int, Sent], None] = lambda _name, _sent: None
    sent: list[Sent] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _sending: threading.Event = field(default_factory=threading.Event)
    _under_way: threading.Semaphore = field(init=False)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._sending.set()
        self._under_way = threading.Semaphore(self.count)
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in range(self.count)]
        for thread in self._threads:
            thread.start()

    def pause(self) -> None:
        """Return when every request has its answer and no new one is sent; until ``resume``."""
        self._sending.clear()
        for _ in range(self.count):
            self._under_way.acquire()

    def resume(self) -> None:
        """Send on."""
        if not self._sending.is_set():
            self._sending.set()
            self._under_way.release(self.count)

    def stop(self) -> list[Sent]:
        """Let each end what it sends; everything that was sent."""
        self._stopping.set()
        self.resume()
        return self.join()

    def join(self) -> list[Sent]:
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]
        return self.sent

    def acknowledged_since(self, moment: float) -> int:
        return sum(sent.status == 200 and sent.began >= moment for sent in list(self.sent))

    def _run(self, name: int) -> None:
        try:
            with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5, read=100)) as http:
                for number in range(1_000_000):
                    if self._stopping.is_set():
                        return
                    self._sending.wait()
                    with self._under_way:
                        sent = self._send(http, name, number)
                    self.sent.append(sent)
                    self.after_each(name, sent)
                    if self.until(sent):
                        return
                    if sent.status != 200:
                        time.sleep(0.1)
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits
            self.failures.append(error)

    def _send(self, http: urllib3.PoolManager, name: int, number: int) -> Sent:
        partition = (name + number) % self.partition_count
        values = tuple(f"{name}-{number:06d}-{index}" for index in range(3))
        url = f"{self.urls[name % len(self.urls)]}/v1/topics/{self.topic}/partitions/{partition}/records"
        body = json.dumps({"records": [{"value": value} for value in values]})
        began = time.monotonic()
        status, answer, retry_after, never_sent = 0, {}, None, False
        try:
            got = http.request("POST", url, body=body, headers={"Content-Type": "application/json"})
            status, answer, retry_after = got.status, got.json(), got.headers.get("retry-after")
        except urllib3.exceptions.NewConnectionError:
            never_sent = True
        except urllib3.exceptions.HTTPError:
            pass
        return Sent(
            partition=partition,
            values=values,
            began=began,
            ended=time.monotonic(),
            status=status,
            answer=answer,
            retry_after=retry_after,
            never_sent=never_sent,
        )


@pytest.fixture
def send() -> Iterator[Callable[..., Senders]]:
    """Start producers: ``send([url, …], topic, partition_count, count)``."""
    started: list[Senders] = []

    def start(urls: Sequence[str], topic: str, partition_count: int, count: int, **more: Any) -> Senders:
        started.append(Senders(urls, topic, partition_count, count, **more))
        started[-1].start()
        return started[-1]

    yield start
    for senders in started:
        senders.stop()


def _check_log(logs: Sequence[Sequence[tuple[int, str]]], sent: Iterable[Sent]) -> None:
    """G1, G2, G3, G8 for ``logs[partition]`` = [(offset, value)]."""
    sent = list(sent)
    for log in logs:
        assert [offset for offset, _ in log] == list(range(len(log)))
    found = Counter(value for log in logs for _, value in log)
    assert not found or max(found.values()) == 1
    for one in sent:
        if one.status == 200:
            (place,) = one.answer["partitions"]
            assert (place["partition"], place["count"]) == (one.partition, len(one.values))
            stored = logs[one.partition][place["base_offset"] : place["last_offset"] + 1]
            assert tuple(value for _, value in stored) == one.values
    assert found.keys() <= {value for one in sent for value in one.values}
    assert not found.keys() & {value for one in sent if one.is_refused for value in one.values}
    for log in logs:
        for name in {value.partition("-")[0] for _, value in log}:
            own = [value for _, value in log if value.startswith(f"{name}-")]
            assert own == sorted(own)


@pytest.fixture
def check_log() -> Callable[..., None]:
    """See ``_check_log``."""
    return _check_log


@pytest.fixture
def eventually() -> Callable[..., bool]:
    """Whether a condition holds within so many seconds."""

    def wait(condition: Callable[[], bool], seconds: float = 20) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.05)
        return condition()

    return wait
