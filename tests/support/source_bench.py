"""A topic in a store that counts, how it grows and is rewritten, and the readers of Spark's source on it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa

from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.actions import CommitInfo, Txn, encode_commit
from log_format.delta.committer import Committer
from log_format.segments.run import Run, SegmentRef
from log_format.segments.scan import scan_segment
from log_format.segments.writer import SegmentWriter
from log_format.topic.append import Append
from log_format.topic.changes import CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.rewrite import NewSegment, Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import Rewritten, add_segment
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.batch import BatchReader
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.stream import StreamReader
from tests.support.faulty_store import FaultyStore
from tests.support.records import batch_of


def new_id() -> str:
    return uuid.uuid4().hex


class SourceBench:
    """Topic ``t`` with two partitions."""

    def __init__(self) -> None:
        self.store = FaultyStore()
        self.log = TopicLog(self.store, "t", SystemClock())
        self.committer = Committer(self.log, new_id=new_id)
        self.create()

    def create(self) -> None:
        """The topic's first incarnation, or another."""
        config = TopicConfig.parse({})
        self.committer.commit(CreateTopic(name="t", partition_count=2, config=config, topic_id=new_id()))

    def append(self, count: int = 1) -> None:
        """One commit with ``count`` records in each partition, whose values are their numbers."""
        values = [b"%d" % number for number in range(2 * count)]
        batch = batch_of(self.log.state.topic_id, values, [number % 2 for number in range(len(values))])
        self.committer.commit(Append([batch], new_id))

    def age(self, commits: int) -> None:
        """So many commits of a record in each partition, a checkpoint a little before the last; their segments are made up."""
        first = self.log.refresh().version + 1
        for number in range(commits):
            ends = [Txn(app_id=str(partition), version=number + 1, last_updated=0) for partition in (0, 1)]
            runs = [Run(partition, number, number + 1, 1, 10, 0, 0) for partition in (0, 1)]
            ref = SegmentRef(layout.segment_path(f"{number}"), 100, 50, 0)
            added = add_segment(ref, runs, modification_time_ms=number, data_change=True)
            data = encode_commit(CommitInfo(txn_id=new_id()), [added, *ends])
            self.store.put(layout.commit_key("t", first + number), data)
        checkpoint.write_checkpoint(self.store, "t", first + commits - 4, 0)
        self.log.reload()

    def merge(self) -> list[str]:
        """Maintenance: all segments become one for each partition; the keys of those that were there before."""
        sources = self.log.refresh().manifest.segments()
        tables = [records for source in sources for records in scan_segment(self.store, "t", source)]
        everything = pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])
        added = []
        for partition in (0, 1):
            writer = SegmentWriter(compression="zstd", row_group_bytes_max=1)
            of_one = everything.filter(pa.compute.equal(everything["partition"], partition))
            for first in range(0, of_one.num_rows, 20):
                writer.add(of_one.slice(first, 20))
            written = writer.finish()
            assert written is not None
            path = layout.compacted_path(new_id())
            self.store.put(f"{layout.topic_root('t')}{path}", written.data)
            new = NewSegment(
                segment=written.ref(path), run=written.runs[0], modification_time_ms=1, rewritten=Rewritten(1)
            )
            added.append(new)
        change = Rewrite(
            topic_id=str(self.log.state.topic_id),
            sources=sources,
            source_record_count=everything.num_rows,
            added=added,
            uploaded=UploadedFile(added[0].segment.path, self.log.clock.monotonic_ms()),
        )
        assert self.committer.commit(change).result is RewriteOutcome.COMMITTED
        return [f"{layout.topic_root('t')}{source.path}" for source in sources]

    def collect(self, keys: Sequence[str]) -> None:
        """Delete these objects."""
        for key in keys:
            self.store.delete(key)

    def delete_records(self, before: dict[int, int]) -> None:
        """Move log starts."""
        self.committer.commit(DeleteRecords(before=before))

    def delete_topic(self) -> None:
        """End this incarnation."""
        self.committer.commit(DeleteTopic())

    def stream_reader(self) -> StreamReader:
        """As a query without a checkpoint makes it, at the topic's end."""
        return StreamReader(parse_options({"store": "x", "subscribe": "t"}, streaming=True), KAFKA_SOURCE)

    def batch_reader(self, **options: str) -> BatchReader:
        """Of the whole topic."""
        return BatchReader(parse_options({"store": "x", "subscribe": "t", **options}, streaming=False), KAFKA_SOURCE)
