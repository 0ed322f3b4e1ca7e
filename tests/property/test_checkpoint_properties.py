"""Checkpoints: whatever the history, replaying from one is replaying from the beginning; any bytes are one or corrupt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.checkpoints.state import read_checkpoint
from log_format.delta.actions import Action, CommitInfo, MetaData, Txn, decode_commit, encode_commit
from log_format.delta.checkpoint_schema import SCHEMA
from log_format.errors import CorruptData
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment, remove_segment
from log_format.topic.state import TopicState
from tests.support.reconciled import reconcile

GOLDEN = next((Path(__file__).parents[1] / "golden" / "commits").glob("*.checkpoint.parquet")).read_bytes()


class History:
    """Commits that a committer could have written, one after another, and the state that they lead to."""

    def __init__(self) -> None:
        self.commits: list[bytes] = []
        self.state = TopicState.absent("t")
        self._names = 0

    def commit(self, actions: list[Action]) -> None:
        data = encode_commit(CommitInfo(txn_id=f"c{len(self.commits)}"), actions)
        self.state = self.state.apply(decode_commit(data, "key"), len(self.commits))
        self.commits.append(data)

    def step(self, data: st.DataObject) -> None:
        """Something that may happen next."""
        if not self.state.exists:
            self.commit([self._metadata(f"topic-{len(self.commits)}", data.draw(st.integers(1, 3)))])
            return
        match data.draw(st.sampled_from(["append", "append", "append", "alter", "trim", "compact", "delete"])):
            case "append":
                self._append(
                    data.draw(st.lists(st.integers(0, self.state.partition_count - 1), min_size=1, max_size=4))
                )
            case "alter":
                more = self.state.partition_count + data.draw(st.integers(0, 1))
                self.commit([self._metadata(str(self.state.topic_id), more, flush=data.draw(st.integers(0, 9)))])
            case "trim":
                self._trim(data)
            case "compact":
                self._compact()
            case _:
                self._delete()

    def _metadata(self, topic_id: str, count: int, *, flush: int = 0, deleted: bool = False) -> MetaData:
        configuration = {"tidelog.partition.count": str(count), "tidelog.flush.ms": str(flush)}
        if deleted:
            configuration["tidelog.deleted"] = "true"
        return MetaData(
            id=topic_id, name="t", schema_string="{}", configuration=configuration, created_time=len(self.commits)
        )

    def _ref(self) -> SegmentRef:
        self._names += 1
        return SegmentRef(f"segments/{self._names}.parquet", 100, 50, self._names)

    def _append(self, partitions: list[int]) -> None:
        runs = []
        for partition in sorted(set(partitions)):
            base, count = self.state.high_watermark(partition), partitions.count(partition)
            runs.append(Run(partition, base, base + count, count, 10, 0, len(self.commits)))
        txns: list[Action] = [Txn(app_id=str(run.partition), version=run.end_offset, last_updated=1) for run in runs]
        time_ms = self.state.modification_time_ms + 1
        self.commit([add_segment(self._ref(), runs, modification_time_ms=time_ms, data_change=True), *txns])

    def _trim(self, data: st.DataObject) -> None:
        partition = data.draw(st.integers(0, self.state.partition_count - 1))
        low, high = self.state.log_start(partition), self.state.high_watermark(partition)
        log_start = data.draw(st.integers(low, high))
        dead = self.state.manifest.segments_below({partition: log_start})
        removes: list[Action] = [remove_segment(ref, deletion_timestamp_ms=1, data_change=True) for ref in dead]
        self.commit([Txn(app_id=f"log-start-{partition}", version=log_start, last_updated=1), *removes])

    def _compact(self) -> None:
        for partition in range(self.state.partition_count):
            runs = self.state.manifest.runs(partition)
            others = {
                at.segment.path
                for other in range(self.state.partition_count)
                if other != partition
                for at in self.state.manifest.runs(other)
            }
            if len(runs) > 1 and not others & {at.segment.path for at in runs}:
                run = Run(partition, runs[0].base_offset, runs[-1].end_offset, 1, 10, 0, 9)
                removes = [remove_segment(at.segment, deletion_timestamp_ms=1, data_change=False) for at in runs]
                self.commit([*removes, add_segment(self._ref(), [run], modification_time_ms=1, data_change=False)])
                return

    def _delete(self) -> None:
        metadata = self._metadata(str(self.state.topic_id), self.state.partition_count, deleted=True)
        segments = self.state.manifest.segments()
        removes: list[Action] = [remove_segment(ref, deletion_timestamp_ms=1, data_change=True) for ref in segments]
        resets: list[Action] = [
            Txn(app_id=f"{prefix}{partition}", version=0, last_updated=1)
            for prefix in ("", "log-start-")
            for partition in range(self.state.partition_count)
        ]
        self.commit([metadata, *removes, *resets])


def facts(state: TopicState) -> tuple[Any, ...]:
    runs = [state.manifest.runs(partition) for partition in range(state.partition_count)]
    paths = {segment.path for segment in state.manifest.segments()} if state.exists else set()
    dead = {segment.path for segment in state.manifest.segments_below({})} if state.exists else set()
    offsets = (state.next_offsets.tolist(), state.log_starts.tolist())
    return state.version, state.topic_id, state.partition_count, offsets, runs, paths, dead


@settings(max_examples=60)
@given(st.data(), st.integers(1, 25))
def test_a_checkpoint_changes_nothing(data: st.DataObject, length: int) -> None:
    """At any version of any history: a checkpoint, also one made by way of others, gives the state; what follows goes on."""
    history = History()
    while len(history.commits) < length:
        history.step(data)
    commits = [decode_commit(commit, "key") for commit in history.commits]
    at = data.draw(st.integers(0, len(commits) - 1))
    earlier = data.draw(st.integers(0, at))
    table = stored(
        reconcile(stored(reconcile(SCHEMA.empty_table(), commits[:earlier], 0)), commits[earlier : at + 1], 0)
    )
    replayed = TopicState.absent("t")
    for version in range(at + 1):
        replayed = replayed.apply(commits[version], version)
    state = read_checkpoint(as_bytes(table), "t", at)
    assert facts(state) == facts(replayed)
    for version in range(at + 1, len(commits)):
        state = state.apply(commits[version], version)
    assert facts(state) == facts(history.state)


def as_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def stored(table: pa.Table) -> pa.Table:
    """The table after a way through the store."""
    return pq.read_table(pa.BufferReader(as_bytes(table)), schema=SCHEMA, use_threads=False)


@settings(max_examples=200)
@given(st.binary(max_size=100), st.integers(0, len(GOLDEN)), st.integers(0, len(GOLDEN)))
def test_any_bytes_are_a_checkpoint_or_corrupt(inserted: bytes, start: int, end: int) -> None:
    """Bytes put in place of others in a real checkpoint: it is read, or it is corrupt."""
    first, last = sorted((start, end))
    try:
        read_checkpoint(GOLDEN[:first] + inserted + GOLDEN[last:], "t", 5)
    except CorruptData:
        return


@settings(max_examples=300)
@given(st.integers(0, len(GOLDEN) - 1), st.integers(1, 255))
def test_a_changed_byte_is_harmless_or_corrupt(position: int, difference: int) -> None:
    """One byte of a checkpoint changes: what is read has the same offsets and segments, or it is corrupt."""
    good = read_checkpoint(GOLDEN, "t", 5)
    try:
        state = read_checkpoint(
            GOLDEN[:position] + bytes([GOLDEN[position] ^ difference]) + GOLDEN[position + 1 :], "t", 5
        )
    except CorruptData:
        return
    assert facts(state) == facts(good)
