"""The time from a record's acknowledgement to its row in a micro-batch: ours through a gateway, Kafka's through its client."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.harness.percentiles import percentile
from benchmarks.harness.processes import call
from benchmarks.kafka.broker import kept

PAUSE_SECONDS = 0.05
WARM_UP_SHARE = 0.4
"""The share of records sent first, while the JVM compiles; they are not counted."""
ARRIVAL_SECONDS_MAX = 60
_ACKNOWLEDGED = Path(__file__).parents[1] / "kafka" / "acknowledged.py"

Send = Callable[[int], Mapping[int, int]]
"""Sends records whose values are their numbers; returns when each was acknowledged, in nanoseconds since the epoch."""


def measure(stream: DataFrame, checkpoint: Path, send: Send, records: int) -> tuple[list[float], dict[str, float]]:
    """Measure milliseconds from acknowledgement to row (p50, p90, p99), and the median milliseconds of a micro-batch's parts."""
    rows: dict[int, int] = {}
    with _running(stream, checkpoint, rows) as query:
        acknowledged = send(records)
        deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
        while len(rows) < len(acknowledged) and time.monotonic() < deadline:
            time.sleep(0.05)
        progress = [each["durationMs"] for each in query.recentProgress if each["numInputRows"]]
    kept_numbers = sorted(acknowledged)[int(len(acknowledged) * WARM_UP_SHARE) :]
    waits = [(rows[number] - acknowledged[number]) / 1e6 for number in kept_numbers]
    later = progress[len(progress) // 2 :]
    parts = {
        name: sorted(each.get(name, 0) for each in later)[len(later) // 2]
        for name in ("latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets", "triggerExecution")
    }
    return [percentile(waits, fraction) for fraction in (0.5, 0.9, 0.99)], parts


def by_gateway(port: int, topic: str, value_of: Callable[[int], Any] = str) -> Send:
    """Send to a gateway: one record a request, from four clients in turn, so that a flush does not set the pace.

    ``value_of``: makes the value of a number, as JSON has it.
    """

    def send(count: int) -> Mapping[int, int]:
        acknowledged: dict[int, int] = {}

        def of_one(first: int) -> None:
            for number in range(first, count, 4):
                body = {"records": [{"value": value_of(number)}]}
                call(port, "POST", f"/v1/topics/{topic}/records", body)
                acknowledged[number] = time.time_ns()
                time.sleep(PAUSE_SECONDS)

        clients = [threading.Thread(target=of_one, args=(first,)) for first in range(4)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return acknowledged

    return send


def by_kafka(address: str, topic: str) -> Send:
    """Send to Kafka with its fastest Python client, without linger."""

    def send(count: int) -> Mapping[int, int]:
        python = str(kept() / "venv" / "bin" / "python")
        command = [python, str(_ACKNOWLEDGED), address, topic, str(count), str(PAUSE_SECONDS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return {int(number): int(at) for number, at in (line.split() for line in done.stdout.splitlines())}

    return send


@contextmanager
def _running(stream: DataFrame, checkpoint: Path, rows: dict[int, int]) -> Iterator[StreamingQuery]:
    def take(batch: DataFrame, _: int) -> None:
        found: list[Row] = batch.select("value").collect()
        now = time.time_ns()
        for row in found:
            rows.setdefault(int(bytes(row["value"])), now)

    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).start()
    try:
        while not query.recentProgress and query.isActive:
            time.sleep(0.1)
        yield query
    finally:
        query.stop()
