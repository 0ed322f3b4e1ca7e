"""The memory of maintenance of a topic of so many GiB, in a Java heap that is too small for them.

A GiB is of stored bytes: values are random, so that neither zstd nor the store makes them smaller. First the flushes are merged,
tier by tier. Then the topic is set to ``cleanup.policy=compact`` and its keys are compacted. Each is one round in a process of
its own, with Spark's workers on all cores. The directory grows to three times as many bytes, and is removed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.harness.topic import PARTITIONS, WrittenTopic, records_of
from benchmarks.maintenance.process import Maintenance
from log_format.stores import open_store
from log_format.topic.changes import AlterTopic

TOPIC: Final = "t"
VALUE_BYTES: Final = 1024
FLUSH_RECORDS: Final = 8 * 1024
"""Records of 8 MiB: a gateway's largest flushes."""
SMALL_HEAP: Final = "512m"
HEAP: Final = "1g"
"""Java's, in a local session with default settings."""
GIBIBYTE: Final = 1024**3
MEBIBYTE: Final = 1024**2
ROUND_SECONDS_MAX: Final = 3_600


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: a row for merging and one for compacting keys."""
    gibibytes = options.gibibytes
    heap = SMALL_HEAP if gibibytes <= 1 else HEAP
    table = Table(
        f"Memory of maintenance over {gibibytes:g} GiB of stored records, Java heap {heap}",
        [
            *("round", "read, GiB", "written, GiB", "seconds", "CPU s", "read MiB/s per core (CPU)"),
            *("Java peak RSS MiB", "Python workers peak RSS MiB", "driver peak RSS MiB", "all at once, MiB"),
        ],
    )
    with directory() as store:
        topic = _fill(store, int(gibibytes * GIBIBYTE))
        _round(table, store, heap, f"merge {topic.log.state.manifest.segment_count():,} flushes, tier by tier")
        topic.alter(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
        _round(table, store, heap, "compact keys")
    table.notes.append(
        f"Values of {VALUE_BYTES:,} random bytes, each key twice on average, {PARTITIONS} partitions; resident sizes, so "
        "memory that Python's workers share counts for each of them."
    )
    yield table


def _round(table: Table, store: str, heap: str, name: str) -> None:
    began = time.monotonic()
    maintenance = Maintenance(store, ["--once"], heap)
    maintenance.wait(ROUND_SECONDS_MAX)
    (done,) = maintenance.events("round")
    if done["failed_topics"] or not done["rewrites"]:
        raise RuntimeError(f"the round did not do its work: {done}")
    memory = maintenance.memory
    table.add(
        name,
        f"{done['bytes_in'] / GIBIBYTE:.2f}",
        f"{done['bytes_out'] / GIBIBYTE:.2f}",
        f"{time.monotonic() - began:.0f}",
        f"{maintenance.cpu_seconds:.0f}",
        f"{done['bytes_in'] / MEBIBYTE / maintenance.cpu_seconds:.0f}",
        *(f"{size / MEBIBYTE:.0f}" for size in (memory.java, memory.workers, memory.driver, memory.all)),
    )


def _fill(store: str, stored_bytes: int) -> WrittenTopic:
    """Write flushes as a gateway under full load does."""
    topic = WrittenTopic(open_store(store, fsync=False), TOPIC, config={"retention.ms": -1})
    rng = np.random.default_rng(1)
    noise = rng.bytes(2 * FLUSH_RECORDS * VALUE_BYTES)
    flushes = max(1, stored_bytes // (FLUSH_RECORDS * VALUE_BYTES))
    partitions = (np.arange(FLUSH_RECORDS) % PARTITIONS).astype(np.int32)
    distinct = max(1, flushes * FLUSH_RECORDS // PARTITIONS // 2)
    for _ in range(flushes):
        records = _records(rng.integers(0, distinct, FLUSH_RECORDS), noise, int(rng.integers(0, len(noise) // 2)))
        topic.append(records, partitions, VALUE_BYTES + 16)
    return topic


def _records(keys: npt.NDArray[np.int64], noise: bytes, start: int) -> pa.Table:
    """Return records whose values are a stretch of the noise: from another start in each flush, without a repeated byte."""
    offsets = pa.py_buffer((np.arange(FLUSH_RECORDS + 1) * VALUE_BYTES).astype(np.int32))
    data = pa.py_buffer(memoryview(noise)[start : start + FLUSH_RECORDS * VALUE_BYTES])
    values = pa.Array.from_buffers(pa.binary(), FLUSH_RECORDS, [None, offsets, data])
    return records_of(values, [b"key-%010d" % key for key in keys.tolist()], time.time_ns() // 1_000_000)
