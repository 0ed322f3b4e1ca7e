"""How long a clone of a topic with many segments takes: links in a directory, copies by the store in MinIO.

The segments' contents are made up, since no clone reads them.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each
from benchmarks.harness.topic import WrittenTopic, new_id
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.cloning import clone_topic
from log_format.clock import SystemClock
from log_format.delta.actions import Txn
from log_format.delta.change import Proposal
from log_format.segments.run import Run, SegmentRef
from log_format.stores import open_store
from log_format.topic.segment_tags import add_segment
from log_format.topic.state import TopicState

SEGMENTS: Final = {"directory": 100_000, "minio": 10_000, "minio-slow": 2_000}
SOURCE: Final = "source"
TURNS: Final = 3
SEGMENT_BYTES: Final = 1_000
_TOGETHER: Final = 10_000


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: seconds of each clone, by store."""
    table = Table("A clone of a topic", ["store", "segments", "seconds of each clone", "CPU seconds of the last"])
    for place in each(options.store):
        with place.reached():
            count = SEGMENTS[place.name]
            fill(place, count)
            store = open_store(place.uri)
            times = []
            for turn in range(TURNS):
                began, cpu = time.perf_counter(), time.process_time()
                cloned = clone_topic(store, SOURCE, f"clone-{turn}", SystemClock(), new_id, config={})
                times.append(time.perf_counter() - began)
                used = time.process_time() - cpu
                assert cloned.file_count == count
        table.add(place.label, f"{count:,}", ", ".join(f"{one:.1f}" for one in times), f"{used:.1f}")
    yield table


@dataclass(frozen=True)
class _Flush:
    """A change that adds segments of one record."""

    segments: Sequence[tuple[SegmentRef, Run]]

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        del state
        adds: list[Any] = [
            add_segment(one, [run], modification_time_ms=now_ms, data_change=True) for one, run in self.segments
        ]
        end = Txn(app_id="0", version=self.segments[-1][1].end_offset, last_updated=now_ms)
        return Proposal(operation="WRITE", actions=[*adds, end], result=None)


def fill(place: Store, count: int) -> None:
    """Write the topic ``SOURCE`` with so many segments, under a checkpoint."""
    store = open_store(place.uri, fsync=False)
    topic = WrittenTopic(store, SOURCE, partitions=1, config={"retention.ms": -1})
    for first in range(0, count, _TOGETHER):
        made = [_segment(offset) for offset in range(first, min(first + _TOGETHER, count))]
        with ThreadPoolExecutor(16) as threads:
            for _ in threads.map(
                lambda one: store.put(f"{layout.topic_root('source')}{one[0].path}", os.urandom(SEGMENT_BYTES)), made
            ):
                pass
        topic.alter(_Flush(made))
    os.sync()  # a topic's files are on the disk
    checkpoint.write_checkpoint(store, SOURCE, topic.log.refresh().version, time.time_ns() // 1_000_000)


def _segment(offset: int) -> tuple[SegmentRef, Run]:
    segment = SegmentRef(layout.segment_path(uuid.uuid4().hex), SEGMENT_BYTES, SEGMENT_BYTES // 2, offset)
    return segment, Run(0, offset, offset + 1, 1, 400, offset, offset)
