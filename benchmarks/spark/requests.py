"""Requests to the store by ``format("tidelog")``, of driver and executors, by the commits in the topic's history.

The history is written by the format itself, with a checkpoint near its end, into a counting store in memory. The readers are
those that Spark calls; here they are called directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from unittest import mock

import numpy as np
from pyspark.sql.streaming.datasource import ReadAllAvailable

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from benchmarks.harness.topic import PARTITIONS, WrittenTopic, new_id, records_of
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.delta.actions import CommitInfo, Txn, encode_commit
from log_format.segments.reader import SegmentReader
from log_format.segments.run import Run, SegmentRef
from log_format.stores.memory import MemoryStore
from log_format.topic.segment_tags import add_segment
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source import reading as source_reading
from spark_pipeline.source import stream
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.stream import StreamReader

TOPIC: Final = "records"
HISTORIES: Final = (10, 1_000, 100_000)
MICRO_BATCHES: Final = 10
ROWS: Final = 100_000
COMMITS_BEHIND_CHECKPOINT: Final = 100


class _Counting:
    """A store that counts its calls."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return call(*arguments, **named)

        return counted

    def taken(self) -> int:
        """Requests since the last call."""
        count = self.calls.total()
        self.calls.clear()
        return count


def measure(_options: Options) -> Iterator[Table]:
    """One table: a stream from the end on, over a million rows in ten commits, each a micro-batch."""
    table = Table(
        f'Requests to the store by format("tidelog"), commits of {ROWS:,} records in {PARTITIONS} partitions',
        [
            *("commits before", "first look", "look without news"),
            *("micro-batch: plan", "micro-batch: read", "a million rows"),
        ],
    )
    records = records_of([b"x" * 100] * ROWS)
    for history in HISTORIES:
        store: Any = _Counting()
        topic = _with_history(store, history)
        segments = SegmentReader(store)
        with (
            mock.patch.object(stream, "opened", lambda _uri, store=store: store),
            mock.patch.object(source_reading, "segment_reader", return_value=segments),
            mock.patch.object(source_reading, "journal_reader"),
        ):
            reader = StreamReader(parse_options({"store": "x", "subscribe": TOPIC}, streaming=True), KAFKA_SOURCE)
            store.taken()
            position = reader.initialOffset()
            first = store.taken()
            reader.latestOffset(position, ReadAllAvailable())
            idle = store.taken()
            planning, reading = [], []
            for _ in range(MICRO_BATCHES):
                topic.append(records, np.arange(ROWS, dtype=np.int32) % PARTITIONS, 101)
                store.taken()
                end = reader.latestOffset(position, ReadAllAvailable())
                tasks = reader.partitions(position, end)
                planning.append(store.taken())
                rows = sum(batch.num_rows for each in tasks for batch in reader.read(each))
                if rows != ROWS:
                    raise RuntimeError(f"a micro-batch had {rows} of {ROWS} records")
                reading.append(store.taken())
                position = end
            reader.stop()
        table.add(f"{history:,}", first, idle, max(planning), max(reading), sum(planning) + sum(reading))
    yield table


def _with_history(store: Any, commits: int) -> WrittenTopic:
    """Make a topic with ``commits`` unread commits, and a checkpoint as gateways keep it."""
    topic = WrittenTopic(store, TOPIC)
    for number in range(commits):
        ends = [Txn(app_id=str(partition), version=number + 1, last_updated=0) for partition in range(PARTITIONS)]
        runs = [Run(partition, number, number + 1, 1, 10, 0, 0) for partition in range(PARTITIONS)]
        segment = SegmentRef(layout.segment_path(new_id()), 200, 100, 0)
        added = add_segment(segment, runs, modification_time_ms=number, data_change=True)
        data = encode_commit(CommitInfo(txn_id=new_id()), [added, *ends])
        store.put(layout.commit_key(TOPIC, number + 1), data)
    if commits > COMMITS_BEHIND_CHECKPOINT:
        checkpoint.write_checkpoint(store, TOPIC, commits - COMMITS_BEHIND_CHECKPOINT, 0)
    topic.log.reload()
    return topic
