"""Loads of programs written for Kafka that have little under way: Java's performance test, Debezium, a registry."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.pace.done import Done, done
from benchmarks.pace.places import Counted, Place
from tests.kafka_clients.tried import debezium, registries
from tests.kafka_clients.tried.postgres import postgres
from tests.kafka_clients.tried.programs import Failed, Missing, Running, kept, tool

TRIED_RECORDS: Final = 2_000
"""Records of the first run of Java's performance test. It knows no seconds: each run tells the records of the next one."""
TRIES_MAX: Final = 4
RECORDS_MAX: Final = 20_000_000
ROWS_A_SECOND: Final = 1_000
"""Rows in Debezium's table for each measured second."""
READ_SECONDS_MAX: Final = 60
_SENT: Final = re.compile(
    r"^(\d+) records sent, ([\d.]+) records/sec.* ([\d.]+) ms 50th, .* ([\d.]+) ms 99th", re.MULTILINE
)


def performance(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Run kafka-producer-perf-test: 100 B, as fast as it can, with default settings."""
    place.make_topic(load)
    tried = _performance(place, load, TRIED_RECORDS)
    for _ in range(TRIES_MAX):
        tried = _performance(place, load, min(RECORDS_MAX, max(TRIED_RECORDS, int(tried.rate * seconds))))
        if tried.seconds > seconds / 2:
            break
    yield tried


def _performance(place: Place, load: str, records: int) -> Done:
    of = ("--topic", load, "--num-records", records, "--record-size", 100, "--throughput", -1)
    counted = Counted()
    with place.counting(counted):
        said = tool("ProducerPerformance", *of, "--bootstrap-server", place.kafka)
    found = _SENT.findall(said)
    if not found or int(found[-1][0]) != records:
        raise Failed(f"the performance test said {said[-300:]!r}")
    _, rate, middle, most = map(float, found[-1])
    # Of the count, too: before and behind it the JVM starts and ends.
    counted.seconds = records / rate
    made = done(load, records, counted.seconds, counted)
    return Done(
        what=load,
        records=records,
        seconds=made.seconds,
        told_ms={0.5: middle, 0.99: most},
        requests=made.requests,
        counted_seconds=made.counted_seconds,
        cpu_seconds=made.cpu_seconds,
    )


def debezium_changes(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Run Debezium (PostgreSQL) on Connect: a snapshot, and a transaction of as many rows; from first to last change read."""
    if not (kept() / "plugins-debezium").exists():
        raise Missing("no Debezium: make kafka-clients gets it by Maven")
    rows = int(ROWS_A_SECOND * seconds)
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-debezium-") as scratch:
        directory = Path(scratch)
        with postgres(directory) as database:
            database.do(
                "create schema shop",
                "create table shop.orders (id bigint primary key, amount int)",
                f"insert into shop.orders select n, 0 from generate_series(1, {rows}) n",
            )
            worker = debezium.Worker(place.kafka, directory, is_exactly_once=False)
            changes = _Changes(place)
            with worker.running() as running:
                settings = debezium.connector(database, is_exactly_once=False)
                worker.make(settings, running)
                yield changes.come(f"{load} snapshot", rows, running)
                database.do("update shop.orders set amount = 1")
                yield changes.come(f"{load} transaction", rows, running)


class _Changes:
    """Reads Debezium's topic, from its beginning."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._consumer = Consumer({"bootstrap.servers": place.kafka, "group.id": "pace", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(debezium.TOPIC, 0, 0)])

    def come(self, what: str, count: int, running: Running) -> Done:
        """Read so many. Raises ``Failed`` where not even two come in time; fewer than all are a rate, too."""
        late = time.monotonic() + READ_SECONDS_MAX
        found, first, last = 0, 0.0, 0.0
        counted = Counted()
        with self._place.counting(counted):
            while found < count and time.monotonic() < late:
                messages = [one for one in self._consumer.consume(100, 0.05) if one.error() is None]
                if messages:
                    last = time.monotonic()
                    first = first or last
                    found += len(messages)
                running.check()
        if last <= first:
            raise Failed(f"{found} of {count} changes came in {READ_SECONDS_MAX} s")
        if found < count:
            what += f", {found} of {count}"
        return done(what, found, last - first, counted)


def registry(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Register schemas one by one at Apicurio Registry, which keeps them in a topic (kafkasql)."""
    latencies_ms: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="tidelog-bench-registry-") as scratch,
        registries.registry(place.kafka, Path(scratch), 1) as running,
    ):
        running.done("/subjects/first/versions", {"schema": registries.schema("id")})
        counted = Counted()
        with place.counting(counted):
            started = time.monotonic()
            while (begun := time.monotonic()) < started + seconds:
                number = len(latencies_ms)
                schema = registries.schema("id", f"field_{number}")
                running.done(f"/subjects/orders-{number}/versions", {"schema": schema})
                latencies_ms.append((time.monotonic() - begun) * 1000)
            took = time.monotonic() - started
    yield done(load, len(latencies_ms), took, counted, latencies_ms)
