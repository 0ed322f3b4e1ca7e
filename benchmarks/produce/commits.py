"""The price of a commit of few records whose sender waits: CPU of the gateway for each commit, and the time to its answer.

HTTP: one record of 100 B a request, one after another. Kafka: five Produce requests of 146 such records are under way, as of
Java's producer with its defaults; each answer is followed by a request. The price is the CPU of the gateway's process.

The last table has the least CPU that the parts of a commit take alone (``commit_parts``).

``--beside DIRECTORY`` measures another tree of the source in the same run, turn by turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.metrics import metrics
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import THIS, Spread, in_turns, ratio, sources, store_of
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, free_port, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each
from tests.support.kafka_frames import Wire, answered, framed

ROUNDS: Final = 8
PARTS_ROUNDS: Final = 3
UNDER_WAY: Final = 5
BATCH_RECORDS: Final = 146
VALUE_BYTES: Final = 100
_COMMITS: Final = "tidelog_commit_seconds_count"


@dataclass(frozen=True, slots=True)
class Priced:
    """A turn: CPU in µs for each commit, the requests that share one, and how long each answer took."""

    cpu_us: float
    requests: float
    latencies_ms: list[float] = field(repr=False)


def measure(options: Options) -> Iterator[Table]:
    """Yield one table for each store, and one of the parts of a commit."""
    for place in each(options.store):
        yield _measured(place, options.seconds, options.beside)
    yield _parts(options.beside)


def _parts(beside: Path | None) -> Table:
    trees = sources(beside)
    table = Table("Parts of a commit, alone", ["part", *(f"{name}, CPU us" for name in trees)])
    runs = in_turns({name: partial(_parts_of, tree) for name, tree in trees.items()}, PARTS_ROUNDS)
    for part in runs[THIS][0]:
        table.add(part, *(f"{min(one[part] for one in runs[name]):,.0f}" for name in trees))
    return table


def _parts_of(tree: Path) -> dict[str, float]:
    # -P and the path, as for a gateway that notes its requests: what the program imports is the tree's.
    command = [sys.executable, "-P", str(Path(__file__).with_name("commit_parts.py"))]
    said = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, check=True)
    found: dict[str, float] = json.loads(said.stdout)
    return found


def _measured(place: Store, seconds: float, beside: Path | None) -> Table:
    table = Table(
        f"A commit whose sender waits, {place.label}",
        ["load", "source", "CPU us/commit", "least", "most", "of the first row", "requests/commit", "p50 ms"],
        notes=[
            f"Medians of {ROUNDS} alternating rounds of {seconds:g} s; of the first row: median of the ratios of each round."
        ],
    )
    with contextlib.ExitStack() as running:
        turns: dict[tuple[str, str], Callable[[], Priced]] = {}
        for name, tree in sources(beside).items():
            address = f"127.0.0.1:{free_port()}"
            listening = ("--kafka-listen", address)
            reached = dict(place.environment)
            server = running.enter_context(gateway(store_of(place, name), reached, listening, tree))
            for topic in ("http", "kafka"):
                make_topic(server.port, topic, 1)
            producer = _Producer(running.enter_context(Wire(address)))
            turns["HTTP, a record", name] = partial(_priced, server, partial(_by_http, server, seconds))
            turns[f"Kafka, {UNDER_WAY} x {BATCH_RECORDS}", name] = partial(
                _priced, server, partial(producer.send, seconds)
            )
        runs = in_turns(turns, ROUNDS, warms_up=True)
    for (load, name), rounds in runs.items():
        prices = [one.cpu_us for one in rounds]
        first = next(runs[key] for key in runs if key[0] == load)
        least, middle, most = Spread(prices).cells(0)
        share = ratio(prices, [one.cpu_us for one in first])
        waits = [wait for one in rounds for wait in one.latencies_ms]
        shared = Spread([one.requests for one in rounds]).cells(1)[1]
        table.add(load, name, middle, least, most, f"{share:.0%}", shared, percentile_text(waits, 0.5, 1))
    return table


def _priced(server: Server, load: Callable[[], list[float]]) -> Priced:
    commits, cpu = metrics(server.port).total(_COMMITS), server.cpu_seconds()
    latencies_ms = load()
    cpu = server.cpu_seconds() - cpu
    commits = metrics(server.port).total(_COMMITS) - commits
    return Priced(cpu / commits * 1e6, len(latencies_ms) / commits, latencies_ms)


def _by_http(server: Server, seconds: float) -> list[float]:
    requests = json_requests(1, VALUE_BYTES, topics=["http"])
    done = run_load(server.port, requests, connections=1, seconds=seconds)
    if done.others:
        raise RuntimeError(f"not every request was acknowledged: {done.statuses}")
    return done.latencies_ms


class _Producer:
    """An idempotent producer of one partition."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        given = wire.call(
            "init_producer_id", 4, transactional_id=None, transaction_timeout=0, producer_id=-1, producer_epoch=-1
        )
        self._id, self._epoch, self._sequence = given.producer_id, given.producer_epoch, 0

    def send(self, seconds: float) -> list[float]:
        """Keep five requests under way until the time is over; return how long each answer took, in ms."""
        latencies_ms: list[float] = []
        begun: deque[float] = deque()
        end = time.perf_counter() + seconds
        while begun or not latencies_ms:
            while len(begun) < UNDER_WAY and (now := time.perf_counter()) < end:
                self._wire.send(self._request())
                begun.append(now)
            answer = answered("produce", 9, self._wire.frame())[1]
            assert answer.responses[0].partition_responses[0].error_code == 0
            latencies_ms.append((time.perf_counter() - begun.popleft()) * 1000)
        return latencies_ms

    def _request(self) -> bytes:
        topics = [{"name": "kafka", "partition_data": [{"index": 0, "records": self._batch()}]}]
        correlation_id = self._wire.correlate()
        return framed("produce", 9, correlation_id, transactional_id=None, acks=-1, timeout=30_000, topic_data=topics)

    def _batch(self) -> bytes:
        batch = DefaultRecordBatchBuilder(2, 0, 0, self._id, self._epoch, self._sequence, 1 << 20)
        now_ms, value = int(time.time() * 1000), random.randbytes(VALUE_BYTES)
        for offset in range(BATCH_RECORDS):
            batch.append(offset, now_ms, None, value, [])
        self._sequence += BATCH_RECORDS
        return bytes(batch.build())
