"""``python -m benchmarks.maintenance_memory [GIB] [HEAP]``: maintenance of a topic of GIB with a Java heap of HEAP.

GIB is stored bytes: values are random, so that neither zstd nor the store makes them smaller. First the flushes are merged, tier
by tier. Then the topic is set to ``cleanup.policy=compact`` and its keys are compacted. Each is one round in a process of its
own, with Spark's workers on all cores. The directory grows to three times as many bytes, and is removed at the end.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.maintenance_process import Maintenance
from benchmarks.processes import directory
from benchmarks.report import Table
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import AlterTopic, CreateTopic
from log_format.topic.config import TopicConfig

TOPIC: Final = "t"
PARTITIONS: Final = 8
VALUE_BYTES: Final = 1024
FLUSH_RECORDS: Final = 8 * 1024
"""Records of 8 MiB: a gateway's largest flushes."""
GIBIBYTE: Final = 1024**3
MEBIBYTE: Final = 1024**2
ROUND_SECONDS_MAX: Final = 3_600


def measure(gibibytes: float, heap: str) -> Iterator[Table]:
    """One table: a row for merging and one for compacting keys."""
    table = Table(
        f"Memory of maintenance over {gibibytes:g} GiB of stored records, Java heap {heap}",
        [
            "round",
            "read, GiB",
            "written, GiB",
            "seconds",
            "CPU s",
            "read MiB/s per core (CPU)",
            "Java peak RSS MiB",
            "Python workers peak RSS MiB",
            "driver peak RSS MiB",
            "all at once, MiB",
        ],
    )
    with directory() as store:
        log = _fill(store, int(gibibytes * GIBIBYTE))
        _round(table, store, heap, f"merge {log.state.manifest.segment_count():,} flushes, tier by tier")
        config = {"cleanup.policy": "compact"}
        log.refresh()
        Committer(log, new_id=_new_id).commit(AlterTopic(partition_count=None, config=config))
        _round(table, store, heap, "compact keys")
    table.notes.append(
        f"Values of {VALUE_BYTES:,} random bytes, each key twice on average, {PARTITIONS} partitions; resident sizes, so that "
        "what Python's workers share counts for each."
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


def _fill(store: str, stored_bytes: int) -> TopicLog:
    """Write flushes as a gateway under full load does; the log has their commits."""
    clock = SystemClock()
    log = TopicLog(open_store(store, fsync=False), TOPIC, clock)
    committer = Committer(log, new_id=_new_id)
    config = TopicConfig.parse({"retention.ms": -1})
    committer.commit(CreateTopic(name=TOPIC, partition_count=PARTITIONS, config=config, topic_id=_new_id()))
    rng = np.random.default_rng(1)
    noise = rng.bytes(2 * FLUSH_RECORDS * VALUE_BYTES)
    flushes = max(1, stored_bytes // (FLUSH_RECORDS * VALUE_BYTES))
    partitions = (np.arange(FLUSH_RECORDS) % PARTITIONS).astype(np.int32)
    distinct = max(1, flushes * FLUSH_RECORDS // PARTITIONS // 2)
    for _ in range(flushes):
        records = _records(
            rng.integers(0, distinct, FLUSH_RECORDS), noise, int(rng.integers(0, len(noise) // 2)), clock
        )
        batch = Batch(
            topic_id=log.state.topic_id or "",
            records=records,
            partitions=partitions,
            record_bytes_max=VALUE_BYTES + 16,
        )
        committer.commit(Append([batch], _new_id))
    return log


def _records(keys: npt.NDArray[np.int64], noise: bytes, start: int, clock: SystemClock) -> pa.Table:
    """Records whose values are a stretch of the noise from ``start`` on: in each flush another one, without a repeated byte."""
    offsets = pa.py_buffer((np.arange(FLUSH_RECORDS + 1) * VALUE_BYTES).astype(np.int32))
    data = pa.py_buffer(memoryview(noise)[start : start + FLUSH_RECORDS * VALUE_BYTES])
    columns = [
        pa.array([clock.now_ms() * 1000] * FLUSH_RECORDS, BATCH_SCHEMA.field("timestamp").type),
        pa.array([b"key-%010d" % key for key in keys.tolist()], pa.binary()),
        pa.Array.from_buffers(pa.binary(), FLUSH_RECORDS, [None, offsets, data]),
        pa.nulls(FLUSH_RECORDS, BATCH_SCHEMA.field("headers").type),
    ]
    return pa.table(columns, schema=BATCH_SCHEMA)


def _new_id() -> str:
    return uuid.uuid4().hex


def main() -> None:
    """Print the table."""
    gibibytes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    heap = sys.argv[2] if len(sys.argv) > 2 else "512m"
    for table in measure(gibibytes, heap):
        print(table.markdown())


if __name__ == "__main__":
    main()
