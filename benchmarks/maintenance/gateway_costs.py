"""The cost of each operation on a topic with a long history, maintained and not, beside a topic with 100 commits.

Each history has a gateway. All gateways run at once and are asked in turn, so that other work on the machine affects all alike.
Operations that a gateway does once in its life are measured on several new gateways.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.harness.processes import free_port, noting_gateway
from benchmarks.harness.report import Table
from benchmarks.harness.trace import requests_for_topics
from benchmarks.maintenance.histories import FLUSH_MS, RECORDS, TOPIC, WINDOW_COMMITS, Histories

STARTS: Final = 3
HOT: Final = 200
"""Produce requests, and as many fetches at the end, for each history."""
COLD: Final = 30
"""Fetches of old records, each from another offset."""

ANSWER_SECONDS_MAX: Final = 120
RECORDS_PER_FETCH: Final = 500


@dataclass(slots=True)
class Measured:
    """One operation on one history: milliseconds of each time; requests to the store and CPU seconds of all times."""

    ms: list[float] = field(default_factory=list)
    requests: int = 0
    cpu_seconds: float = 0.0

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ms)

    def note(self, ms: float) -> None:
        self.ms.append(ms)


Costs = dict[str, dict[str, Measured]]
"""Operation -> history -> measurement."""


class CountedGateway:
    """A running gateway, one connection to it, and its count of requests."""

    def __init__(self, store: Path, counts: Path) -> None:
        self._counts = counts
        port = free_port()
        began = time.perf_counter()
        self.server = noting_gateway(store.as_uri(), counts, port, ("--forwarding", "off", "--log-level", "warning"))
        self.start_ms = (time.perf_counter() - began) * 1000
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    @property
    def requests(self) -> int:
        return requests_for_topics(self._counts)

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Return the answer with status 200. Ask again if need be: a log may take longer to load than a request may wait."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while True:
            self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = self._connection.getresponse()
            data = answer.read()
            if answer.status != 503 or time.monotonic() > deadline:
                break
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:500]!r}")
        return json.loads(data)

    def stop(self) -> None:
        self._connection.close()
        self.server.stop()


def measure(histories: Histories, names: Mapping[str, Path], scratch: Path) -> Costs:
    """Measure every operation of a gateway on every history."""
    costs: Costs = {}

    def of(operation: str, name: str) -> Measured:
        return costs.setdefault(operation, {}).setdefault(name, Measured())

    with contextlib.ExitStack() as running:
        gateways: dict[str, CountedGateway] = {}
        for _ in range(STARTS):
            for name, path in names.items():
                if name in gateways:
                    gateways[name].stop()
                gateways[name] = gateway = CountedGateway(path, scratch / f"requests-{path.name}")
                running.callback(gateway.stop)
                of("gateway: start until ready", name).note(gateway.start_ms)
                _measure_one(
                    of("gateway: first look at the topic", name), gateway, partial(gateway.ask, "GET", _TOPIC_PATH)
                )
        for operation, act, count in _operations(histories, gateways):
            for number in range(count):
                for name, gateway in gateways.items():
                    _measure_one(of(operation, name), gateway, partial(act, name, number))
    return costs


_TOPIC_PATH: Final = f"/v1/topics/{TOPIC}"
_RECORDS_PATH: Final = f"{_TOPIC_PATH}/partitions/0/records"
Act = Callable[[str, int], object]


def _measure_one(measured: Measured, gateway: CountedGateway, act: Callable[[], object]) -> None:
    requests, cpu_seconds = gateway.requests, gateway.server.cpu_seconds()
    began = time.perf_counter()
    act()
    measured.note((time.perf_counter() - began) * 1000)
    measured.requests += gateway.requests - requests
    measured.cpu_seconds += gateway.server.cpu_seconds() - cpu_seconds


def _operations(histories: Histories, gateways: Mapping[str, CountedGateway]) -> Iterator[tuple[str, Act, int]]:
    """Yield the name of each operation, what it does on one history in one turn, and the number of turns."""
    rng = random.Random(1)
    places = rng.sample(histories.read_from, min(2 * COLD, len(histories.read_from)))
    offsets = {name: [place + rng.randrange(2 * RECORDS) for place in places] for name in gateways}
    few = next(iter(gateways))
    last = histories.few_records - WINDOW_COMMITS * RECORDS
    offsets[few] = [rng.randrange(last) for _ in places]
    starts_ms = {name: _first_timestamp(gateway) for name, gateway in gateways.items()}
    times = {
        name: [starts_ms[name] + offset // RECORDS * FLUSH_MS for offset in offsets[name][COLD:]] for name in gateways
    }
    body = b'{"records":[{"value":"' + b"x" * 100 + b'"}]}'
    ends: dict[str, int] = {}

    def produce(name: str, _turn: int) -> None:
        answer = gateways[name].ask("POST", f"{_TOPIC_PATH}/records", body)
        ends[name] = answer["partitions"][0]["last_offset"]

    def tail(name: str, _turn: int) -> None:
        gateways[name].ask("GET", f"{_RECORDS_PATH}?offset={ends[name]}")

    def by_offset(name: str, turn: int) -> None:
        _fetch(gateways[name], f"offset={offsets[name][turn]}")

    def by_time(name: str, turn: int) -> None:
        _fetch(gateways[name], f"timestamp={times[name][turn]}")

    yield f"fetch {RECORDS_PER_FETCH} old records by offset", by_offset, COLD
    yield f"fetch {RECORDS_PER_FETCH} old records by time", by_time, len(times[few])
    yield "produce one record, flush.ms 0", produce, HOT
    yield "fetch the newest record", tail, HOT


def _first_timestamp(gateway: CountedGateway) -> int:
    """Return the timestamp of the first record; those of the others follow from it."""
    record = gateway.ask("GET", f"{_RECORDS_PATH}?offset=0&max_records=1")["records"][0]
    milliseconds: int = record["timestamp"]
    return milliseconds


def _fetch(gateway: CountedGateway, where: str) -> None:
    """Fetch ``RECORDS_PER_FETCH`` records from there on. One answer has those of 64 segments at most."""
    left = RECORDS_PER_FETCH
    while left > 0:
        answer = gateway.ask("GET", f"{_RECORDS_PATH}?{where}&max_records={left}")
        records = answer["records"]
        if not records:
            raise RuntimeError(f"a fetch by {where} gave no records")
        left -= len(records)
        where = f"offset={answer['next_offset']}"


def tables(costs: Costs, names: Sequence[str], facts: Mapping[str, Mapping[str, str]], title: str) -> Iterator[Table]:
    """Return medians, and ratios to the first history; then requests and CPU, with the ``facts`` about each history."""
    first = names[0]
    table = Table(f"{title}: median ms, and beside {first}", ["", *names])
    for operation, measured in costs.items():
        floor = measured[first].median_ms
        cells = [_ratio(measured.get(name), floor, is_first=name == first) for name in names]
        table.add(operation, *cells)
    yield table
    table = Table(f"{title}: requests to the store, CPU of the gateway in ms", ["", *names])
    for operation, measured in costs.items():
        if any(each.requests or each.cpu_seconds for each in measured.values()):
            table.add(operation, *(_work(measured[name]) for name in names))
    for what in facts[first]:
        table.add(what, *(facts[name][what] for name in names))
    yield table


def _ratio(measured: Measured | None, floor: float, *, is_first: bool) -> str:
    if measured is None or not measured.ms:
        return "not within its time"
    shown = f"{measured.median_ms:,.1f}" if measured.median_ms < 1000 else f"{measured.median_ms:,.0f}"
    return shown if is_first else f"{shown} ({measured.median_ms / floor:.2f} x)"


def _work(measured: Measured) -> str:
    count = max(1, len(measured.ms))
    return f"{measured.requests / count:.1f}, {measured.cpu_seconds / count * 1000:.1f} ms"
