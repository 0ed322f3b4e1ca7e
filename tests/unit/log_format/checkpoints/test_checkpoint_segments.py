"""The segments of a checkpoint as columns: what is not as Tidelog writes it is taken one by one, and means the same."""

from __future__ import annotations

import json
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.checkpoints import segments as checkpoint_segments
from log_format.checkpoints.checkpoint import decode_checkpoint, removed_paths, write_checkpoint
from log_format.checkpoints.segments import decode_segment_columns, decode_segments
from log_format.checkpoints.state import read_checkpoint
from log_format.delta import checkpoint_file
from log_format.delta.checkpoint_schema import ADD
from log_format.errors import CorruptData
from log_format.manifest.manifest import Manifest
from log_format.segments.run import Run, SegmentRef
from log_format.topic.changes import DeleteRecords
from log_format.topic.segment_tags import TAG_FOOTER, TAG_RUNS
from tests.support.topic_bench import TopicBench

PATH = "segments/00000000-0000-4000-8000-00000000000{}.parquet"
RUN = [0, 0, 5, 5, 10, 0, 9]


def add(path: str = PATH.format(0), size: int = 100, runs: Any = None, footer: Any = None) -> dict[str, Any]:
    """An ``add``; ``runs`` and ``footer`` may be any text."""
    tags = {TAG_RUNS: [RUN] if runs is None else runs, TAG_FOOTER: [90, 7] if footer is None else footer}
    texts = [(name, tag if isinstance(tag, str) else json.dumps(tag)) for name, tag in tags.items()]
    return {"path": path, "size": size, "modificationTime": 1, "tags": texts}


def of(*adds: dict[str, Any]) -> pa.StructArray:
    return pa.array(list(adds), ADD)


@pytest.mark.parametrize(
    "unusual",
    [
        add(path="segments/x.parquet"),
        add(path="segments/00000000-0000-4000-8000-00000000000A.parquet"),
        add(path="elsewhere/00000000-0000-4000-8000-000000000001.parquet"),
        add(path="segments/%300000000-0000-4000-8000-000000000000.parquet"),
        add(size=2**32),
        add(footer=[101, 7]),
        add(footer=[90, 2**32]),
    ],
    ids=["name", "upper case", "directory", "encoded", "large", "footer beyond", "checksum"],
)
def test_what_is_unusual_is_taken_one_by_one(unusual: dict[str, Any]) -> None:
    """No segment is lost or changed for having a path or numbers that the columns can't hold."""
    adds = of(add(PATH.format(1)), unusual)
    assert decode_segment_columns(adds) is None
    manifest = Manifest()
    for number, (segment, runs) in enumerate(decode_segments(adds)):
        manifest.add(segment, [Run(number, *RUN[1:])] if runs else [])
    assert manifest.segments() == [segment for segment, _ in decode_segments(adds)]
    assert manifest.has_all([segment.path for segment in manifest.segments()])


@pytest.mark.parametrize(
    "runs",
    ["", "[", "7", "[7]", "[[1,2,3]]", "[null]", "[[0,0,5,5,10,0,null]]", "[[0,0,5,5,10,0,9.5]]", "[[0,0,5,5,10,0,1e99]]",
     [[-1, *RUN[1:]]], [[0, 5, 5, 5, 10, 0, 9]], [[0, 0, 5, 6, 10, 0, 9]], [[0, 0, 5, 5, 0, 0, 9]], [[0, 0, 5, 5, 2**32, 0, 9]],
     [[0, 0, 5, 0, 10, 0, 9]], [[0, 0, 5, 5, 10, 9, 0]], [[0, 0, 5, 5, 10, -1, 0]], '[]}\n{"r":[]', '[],"r":[[1]]'],
)  # fmt: skip
def test_what_is_wrong_is_corrupt(runs: Any) -> None:
    """Tags that can't be are never taken for columns, so that the segment that has them is named."""
    adds = of(add(PATH.format(1)), add(runs=runs))
    assert decode_segment_columns(adds) is None
    with pytest.raises(CorruptData, match=r"000000000000\.parquet"):
        list(decode_segments(adds))


def test_a_missing_tag_is_corrupt() -> None:
    """A segment without a tag is not Tidelog's."""
    adds = of(add(PATH.format(1)), {"path": PATH.format(0), "size": 1, "modificationTime": 1, "tags": None})
    assert decode_segment_columns(adds) is None
    with pytest.raises(CorruptData):
        list(decode_segments(adds))


def test_twice_is_corrupt() -> None:
    """A path that comes twice, and offsets that are given twice, are found among columns, too."""
    for adds in (of(add(), add(runs=[[1, *RUN[1:]]])), of(add(), add(PATH.format(1)))):
        found = decode_segment_columns(adds)
        assert found is not None
        with pytest.raises(CorruptData):
            Manifest().add_many(*found, np.zeros(2, np.int64))
    manifest = Manifest()
    manifest.add(SegmentRef(PATH.format(0), 1, 1, 1), [Run(1, *RUN[1:])])
    found = decode_segment_columns(of(add()))
    assert found is not None
    with pytest.raises(CorruptData):
        manifest.add_many(*found, np.zeros(2, np.int64))
    assert manifest.segments() == [SegmentRef(PATH.format(0), 1, 1, 1)]


def test_runs_may_be_as_long_as_they_like() -> None:
    """A run of more offsets than 32 bits count, as key compaction may leave it, keeps its offsets."""
    ends = 2**40, 2**40 + 2**35
    found = decode_segment_columns(
        of(*(add(PATH.format(i), runs=[[0, end - 2**34, end, 1, 10, 0, 9]]) for i, end in enumerate(ends)))
    )
    assert found is not None
    many, one = Manifest(), Manifest()
    many.add_many(*found, np.zeros(1, np.int64))
    for i, end in enumerate(ends):
        one.add(SegmentRef(PATH.format(i), 100, 90, 7), [Run(0, end - 2**34, end, 1, 10, 0, 9)])
    for manifest in (many, one):
        assert [(at.base_offset, at.end_offset) for at in manifest.runs(0)] == [(end - 2**34, end) for end in ends]
        assert manifest.paths_within(0, 0, ends[0]) == {PATH.format(0)}


def test_a_checkpoint_becomes_columns(bench: TopicBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segments of our own checkpoints are never taken one by one: that would cost minutes where there are many."""
    bench.new_id = lambda: str(uuid.uuid4())
    gateway = bench.create(2)
    for number in range(3):
        bench.append(gateway, {0: [b"%d" % number], 1: [b"a", b"b"]})
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    monkeypatch.setattr("log_format.checkpoints.state.decode_segments", None)
    monkeypatch.setattr(checkpoint_segments, "decode_segment_tags", None)
    state = read_checkpoint(bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet")), "flights", version)
    assert state.manifest.segments() == gateway.log.state.manifest.segments()
    assert state.manifest.runs(1) == gateway.log.state.manifest.runs(1)


def test_pieces_make_no_difference(bench: TopicBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that is read and written in many pieces, one after the other, says what the log says."""
    for name, value in (("_ROWS_MAX", 2), ("_GROUP_BYTES", 1), ("LARGE_BYTES", 0)):
        monkeypatch.setattr(checkpoint_file, name, value)
    gateway = bench.create(2)
    for number in range(9):
        bench.append(gateway, {0: [b"%d" % number], 1: [b"a", b"b"]})
        if number in (2, 5):
            gateway.committer.commit(DeleteRecords(before={0: number, 1: number * 2}))
            write_checkpoint(bench.store, "flights", gateway.log.state.version, bench.clock.now_ms())
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    data = bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet"))
    state, true = read_checkpoint(data, "flights", version), gateway.log.state
    assert {segment.path for segment in state.manifest.segments()} == {ref.path for ref in true.manifest.segments()}
    assert [state.manifest.runs(partition) for partition in (0, 1)] == [true.manifest.runs(p) for p in (0, 1)]
    assert state.next_offsets.tolist() == true.next_offsets.tolist()
    assert state.log_starts.tolist() == true.log_starts.tolist()
    whole = decode_checkpoint(data, "topics/flights/", version)
    assert len(removed_paths(whole)) == 5
    assert pq.ParquetFile(pa.BufferReader(data)).metadata.num_row_groups > 4


def test_tombstones_that_are_elsewhere_are_corrupt(bench: TopicBench) -> None:
    """Where a checkpoint's metadata names the wrong row groups, no segment is passed over unseen."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    table = decode_checkpoint(
        bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet")), "topics/flights/", version
    )
    for said in (b"[0,9]", b"[0,-1]", b"[1,0]", b"[]", b"{", b"[9,0]"):
        metadata = {**table.schema.metadata, checkpoint_file.TOMBSTONES_KEY: said}
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(metadata), sink)
        with pytest.raises(CorruptData):
            read_checkpoint(sink.getvalue().to_pybytes(), "flights", version)
