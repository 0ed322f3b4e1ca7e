"""The measurements of ``tidelog bench``. Both end by themselves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from tidelog.bodies.encode import Compression
from tidelog.cli.bench.measured import Measured
from tidelog.consumer.consumer import Consumer
from tidelog.producer.producer import Producer
from tidelog.types.record import TopicPartition

_SAMPLES: Final = 10_000
"""Number of latencies kept: enough for a 99th percentile, and no measurable work."""
_VALUES: Final = 1_000
"""Number of different values, made before the clock starts, so that generating or compressing them does not distort the
result."""
_TABLE_BYTES: Final = 2 * 1024 * 1024
_POLL_MS: Final = 10_000

Show = Callable[[int], None]
_Sent = Iterator[tuple[int, Future[Any]]]
"""Number of records sent so far, and the future of the last one; yielded for a sample of records."""


def measure_produce(
    topic: str,
    *,
    url: str | None,
    token_file: Path | None,
    record_count: int,
    size_bytes: int,
    seconds_max: float,
    tables: bool,
    compression: Compression | None,
    timeout_ms: float,
    show: Show,
) -> Measured:
    """Send ``record_count`` records of ``size_bytes``, or as many as fit into ``seconds_max``, and wait for all
    acknowledgements.

    ``tables``: send Arrow tables of 2 MiB instead of single records. Raises the first ``TidelogError`` of a record.
    """
    values = [os.urandom(size_bytes) for _ in range(_VALUES)]
    latencies_ms: list[float] = []
    began = time.monotonic()
    until = began + seconds_max
    sent = 0
    with Producer(url, token_file=token_file, compression=compression, delivery_timeout_ms=timeout_ms) as producer:
        for sent, future in (_send_tables if tables else _send_records)(producer, topic, values, record_count):
            future.add_done_callback(_Stopwatch(latencies_ms))
            show(sent)
            if time.monotonic() >= until:
                break
    return Measured(
        record_count=sent,
        value_bytes=sent * size_bytes,
        elapsed_s=time.monotonic() - began,
        latency_of="table, from send to acknowledgement" if tables else "record, from send to acknowledgement",
        latencies_ms=latencies_ms,
    )


def _send_records(producer: Producer, topic: str, values: list[bytes], record_count: int) -> _Sent:
    every = max(1, record_count // _SAMPLES)
    for count in range(1, record_count + 1):
        future = producer.send(topic, values[count % len(values)])
        if count % every == 0 or count == record_count:
            yield count, future


def _send_tables(producer: Producer, topic: str, values: list[bytes], record_count: int) -> _Sent:
    import pyarrow as pa  # noqa: PLC0415 - the other measurement works without it

    rows = max(1, min(record_count, _TABLE_BYTES // max(1, len(values[0]))))
    whole = pa.table({"value": pa.array([values[index % len(values)] for index in range(rows)], pa.binary())})
    sent = 0
    while sent < record_count:
        part = whole.slice(0, min(rows, record_count - sent))
        sent += part.num_rows
        yield sent, producer.send_table(topic, part)


class _Stopwatch:
    """Callback that stores the time since its creation if the future succeeded."""

    __slots__ = ("_began", "_latencies_ms")

    def __init__(self, latencies_ms: list[float]) -> None:
        self._latencies_ms = latencies_ms
        self._began = time.monotonic()

    def __call__(self, future: Future[Any]) -> None:
        if future.exception() is None:
            self._latencies_ms.append((time.monotonic() - self._began) * 1000)


def measure_consume(
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    *,
    url: str | None,
    token_file: Path | None,
    record_count: int,
    seconds_max: float,
    tables: bool,
    timeout_ms: float,
    show: Show,
) -> Measured:
    """Read ``[begin, end)`` of each partition, at most about ``record_count`` records, or as many as fit into ``seconds_max``."""
    latencies_ms: list[float] = []
    count = value_bytes = 0
    left = {place for place in begin if begin[place] < end[place]}
    with Consumer(
        bootstrap_servers=url, token_file=token_file, auto_offset_reset="none", api_timeout_ms=timeout_ms
    ) as consumer:
        consumer.assign(left)
        for place in left:
            consumer.seek(place, begin[place])
        began = time.monotonic()
        while left and count < record_count and time.monotonic() - began < seconds_max:
            asked = time.monotonic()
            if tables:
                table = consumer.poll_arrow(_POLL_MS)
                count += table.num_rows
                value_bytes += table.column("value").nbytes + table.column("key").nbytes
            else:
                records = consumer.poll(_POLL_MS, min(5_000, record_count - count))
                count += len(records)
                value_bytes += sum(len(record.value or b"") + len(record.key or b"") for record in records)
            latencies_ms.append((time.monotonic() - asked) * 1000)
            show(count)
            done = {place for place in left if consumer.position(place) >= end[place]}
            consumer.pause(*done)
            left -= done
        elapsed_s = time.monotonic() - began
    return Measured(
        record_count=count,
        value_bytes=value_bytes,
        elapsed_s=elapsed_s,
        latency_of="poll",
        latencies_ms=latencies_ms,
    )
