"""The cost of a topic's state to a process, by the number of runs in each of its unmerged segments.

A checkpoint of 200,000 segments is written once. For each line a new process loads the topic from it, from a store in memory, as
a gateway does at a start or takeover. The table shows the resident size that stays and the largest on the way; the checkpoint's
own bytes are in neither. The floor is pyarrow reading the columns that a load needs. A second table shows the cost of writing the
next checkpoint: the largest size includes its bytes, not those of the previous one.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import Action, CommitInfo, Txn, encode_commit
from log_format.segments.run import Run, SegmentRef
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.segment_tags import add_segment
from log_format.topic.state import TopicState

SEGMENTS: Final = 200_000
RUNS: Final = (1, 8)
SEGMENTS_PER_COMMIT: Final = 10_000
MEBIBYTE: Final = 1024 * 1024
LOADED: Final = "topics/t/_delta_log/"
COLUMNS: Final = ("add.path", "add.size", "add.modificationTime", "add.tags", "txn", "metaData")


class StandingClock:
    """A clock that stands still: time does not matter here."""

    def now_ms(self) -> int:
        return 1_763_683_200_000

    def monotonic_ms(self) -> int:
        return 0

    def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError(f"no caller may wait {duration_ms} ms")


def _flush(number: int, partitions: int) -> Action:
    runs = [Run(partition, number * 20, number * 20 + 20, 20, 1_500, number, number) for partition in range(partitions)]
    segment = SegmentRef(layout.segment_path(str(uuid.uuid4())), 1_500 * partitions + 2_500, 1_500 * partitions, number)
    return add_segment(segment, runs, modification_time_ms=number + 1, data_change=True)


def log_of(segments: int, partitions: int) -> dict[str, bytes]:
    """Return the objects of a log: ``segments`` segments, each with a run for each partition, under one checkpoint."""
    store = MemoryStore(clock=StandingClock())
    create = CreateTopic(name="t", partition_count=partitions, config=TopicConfig.parse({}), topic_id="bench")
    actions: Sequence[Action] = create.propose(TopicState.absent("t"), 0).actions
    for version, first in enumerate(range(0, segments + SEGMENTS_PER_COMMIT, SEGMENTS_PER_COMMIT)):
        store.put(layout.commit_key("t", version), encode_commit(CommitInfo(txn_id=str(version)), actions))
        count = min(segments, first + SEGMENTS_PER_COMMIT)
        ends = [Txn(app_id=str(partition), version=count * 20, last_updated=0) for partition in range(partitions)]
        actions = [*(_flush(number, partitions) for number in range(first, count)), *ends]
    checkpoint.write_checkpoint(store, "t", version, 0)
    keys = (layout.checkpoint_key("t", version), layout.last_checkpoint_key("t"))
    return {key: store.get(key) for key in keys}


def _load(store: MemoryStore) -> TopicLog:
    log = TopicLog(store, "t", StandingClock())
    log.refresh()
    return log


def _write_next(store: MemoryStore) -> None:
    version = checkpoint.last_checkpoint_version(store, "t")
    assert version is not None
    store.put(layout.commit_key("t", version + 1), encode_commit(CommitInfo(txn_id="next"), [_flush(0, 1)]))
    checkpoint.write_checkpoint(store, "t", version + 1, 0)
    assert checkpoint.last_checkpoint_version(store, "t") == version + 1


def _read_columns(store: MemoryStore) -> int:
    (key,) = [info.key for info in store.list(LOADED) if info.key.endswith(".parquet")]
    file = pq.ParquetFile(pa.BufferReader(store.get(key)))
    return sum(batch.num_rows for batch in file.iter_batches(8_192, columns=list(COLUMNS), use_threads=False))


def _resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss


def _measured(act: Callable[[MemoryStore], Any], objects: dict[str, bytes], answer: Any) -> None:
    """Send CPU seconds, bytes that stay, and the largest bytes."""
    pa.set_memory_pool(pa.system_memory_pool())
    small = MemoryStore(clock=StandingClock())
    for key, data in log_of(100, 1).items():
        small.put(key, data)
    act(small)  # modules loaded at first use do not count as the topic's
    store = MemoryStore(clock=StandingClock())
    for key, data in objects.items():
        store.put(key, data)
    before = _resident_bytes()
    Path("/proc/self/clear_refs").write_text("5")  # resets the largest resident size
    started = time.process_time()
    kept = act(store)
    seconds = time.process_time() - started
    status = Path("/proc/self/status").read_text()
    largest = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    answer.put((seconds, _resident_bytes() - before, largest - before))
    del kept


def measured(act: Callable[[MemoryStore], Any], objects: dict[str, bytes]) -> tuple[float, int, int]:
    """Measure in a process of its own, as ``_measured`` sends it."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_measured, args=(act, objects, answer))
    process.start()
    found: tuple[float, int, int] = answer.get(timeout=600)
    process.join()
    return found


def measure(_options: Options) -> Iterator[Table]:
    """Yield two tables: loading such a topic, and writing its next checkpoint."""
    yield _loads(SEGMENTS)
    yield _writes(SEGMENTS)


def _loads(segments: int) -> Table:
    table = Table(
        f"A topic with {segments:,} segments, loaded from its checkpoint",
        ["partitions", "checkpoint, MiB", "CPU, s", "stays, MiB", "a segment, bytes", "at most, MiB", "floor: CPU, s"],
    )
    for partitions in RUNS:
        objects = log_of(segments, partitions)
        seconds, stays, most = measured(_load, objects)
        floor, _, _ = measured(_read_columns, objects)
        checkpoint_bytes = max(len(data) for data in objects.values())
        mib = [f"{size / MEBIBYTE:,.1f}" for size in (checkpoint_bytes, stays, most)]
        table.add(partitions, mib[0], f"{seconds:.2f}", mib[1], f"{stays / segments:,.0f}", mib[2], f"{floor:.2f}")
    return table


def _writes(segments: int) -> Table:
    table = Table(
        f"The next checkpoint of a topic with {segments:,} segments",
        ["partitions", "checkpoint, MiB", "CPU, s", "at most, MiB", "floor: CPU to read the one before, s"],
    )
    for partitions in RUNS:
        objects = log_of(segments, partitions)
        seconds, _, most = measured(_write_next, objects)
        floor, _, _ = measured(_read_columns, objects)
        checkpoint_bytes = max(len(data) for data in objects.values())
        mib = [f"{size / MEBIBYTE:,.1f}" for size in (checkpoint_bytes, most)]
        table.add(partitions, mib[0], f"{seconds:.2f}", mib[1], f"{floor:.2f}")
    return table
