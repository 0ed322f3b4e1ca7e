"""The examples of delivery guarantees, as processes that are killed with SIGKILL, against a real gateway."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway
from tidelog import Admin, Consumer, Producer

EXAMPLES = Path(__file__).parents[2] / "examples"
ORDERS = 300
PARTITIONS = 4
SESSION_MS = 3_000
KILLS = 3
PATIENCE_S = 120


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A gateway with orders in it."""
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log") as gateway:
        with Admin(gateway.url) as admin, Producer(gateway.url) as producer:
            admin.create_topic("orders", PARTITIONS, {"flush.ms": 0})
            admin.create_topic("invoices", PARTITIONS)
            for number in range(ORDERS):
                producer.send("orders", f"{number}", key=f"user-{number % 40}", partition=number % PARTITIONS)
        yield gateway.url


class Workers:
    """Two processes of one example. One that is killed is followed by another under its name."""

    def __init__(self, url: str, directory: Path, example: str, *names: str) -> None:
        self._environment = {**os.environ, "TIDELOG_URL": url, "PYTHONPATH": str(EXAMPLES.parent)}
        self._log = directory / "examples.log"
        self._example = EXAMPLES / example
        self._names = names
        self._running = {name: self._start(name) for name in names}

    def kill(self, number: int) -> None:
        """SIGKILL, and start it again."""
        name = self._names[number % len(self._names)]
        self._end(name)
        self._running[name] = self._start(name)

    def end(self) -> None:
        """All of them, for good."""
        for name in self._names:
            self._end(name)
        assert "Traceback" not in self._log.read_text(), self._log.read_text()

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            command = [sys.executable, str(self._example), name, str(SESSION_MS)]
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def _end(self, name: str) -> None:
        process = self._running[name]
        assert process.poll() is None, self._log.read_text()
        process.kill()
        process.wait()


def work_under_kills(workers: Workers, url: str, group: str, done: Callable[[], int]) -> None:
    """Kill one after the other as the work goes on, until the group has committed everything."""
    killed = 0
    deadline = time.monotonic() + PATIENCE_S
    with Admin(url) as admin:
        while True:
            assert time.monotonic() < deadline, (killed, done())
            if killed < KILLS and done() >= (killed + 1) * ORDERS // (KILLS + 2):
                workers.kill(killed)
                killed += 1
            offsets = admin.group_offsets(group).values()
            if sum(each.offset for each in offsets) == ORDERS and killed == KILLS:
                return
            time.sleep(0.02)


def lines(*files: Path) -> list[str]:
    """What the processes wrote."""
    return [line for file in files if file.exists() for line in file.read_text().splitlines()]


@pytest.mark.parametrize("promise", ["at_least_once", "at_most_once"])
def test_a_killed_reader(url: str, tmp_path: Path, promise: str) -> None:
    """At least once: nothing is missing. At most once: nothing is there twice."""
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    workers = Workers(url, tmp_path, f"group_{promise}.py", *map(str, files))
    try:
        work_under_kills(workers, url, promise.replace("_", "-"), lambda: len(set(lines(*files))))
    finally:
        workers.end()
    counts = Counter(lines(*files))
    if promise == "at_least_once":
        assert len(counts) == ORDERS
    else:
        assert set(counts.values()) == {1}
        assert len(counts) >= ORDERS // 2


def test_a_killed_transactional_loop(url: str, tmp_path: Path) -> None:
    """Exactly once: every order has one invoice, and one user's are in the order of the orders."""

    def count() -> int:
        with Admin(url) as admin:
            return sum(each.high_watermark for each in admin.offsets("invoices").values())

    workers = Workers(url, tmp_path, "group_exactly_once.py", "one", "two")
    try:
        work_under_kills(workers, url, "invoices", count)
    finally:
        workers.end()
    found: dict[bytes, list[int]] = {}
    with Consumer("invoices", bootstrap_servers=url, consumer_timeout_ms=1_000) as consumer:
        for record in consumer:
            found.setdefault(record.key, []).append(int(record.value.removeprefix(b"invoice for ")))
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(ORDERS))
    assert all(numbers == sorted(numbers) for numbers in found.values())
