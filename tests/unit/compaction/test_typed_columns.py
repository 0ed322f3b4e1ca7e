"""Maintenance of a typed topic: rewritten segments have the columns of their sources, and statistics of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compaction.policy import Policy
from log_format.records.typed_columns import DATA, DATA_ERROR, TypedColumns
from log_format.segments.reader import OffsetRange, SegmentReader
from log_format.topic.append import Append, Batch
from log_format.topic.changes import AlterTopic
from log_format.topic.config import Subjects
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.records import batch_of

ORDER = pa.struct([("id", pa.int64())])
LATER = pa.struct([*ORDER, pa.field("note", pa.string())])
SUBJECTS = Subjects("orders-value")


def append(bench: MaintenanceBench, data: pa.DataType, *rows: tuple[bytes, Any], has_left_out: bool = False) -> None:
    """One flush of typed records: key, and the value's members; None: a tombstone. ``has_left_out``: no value is stored."""
    bench.log.refresh()
    values = [None if row is None or has_left_out else json.dumps(row).encode() for _, row in rows]
    plain = batch_of(
        bench.log.state.topic_id or "none", values, 0, keys=[key for key, _ in rows], timestamps_ms=bench.clock.now_ms()
    )
    columns = {DATA: pa.array([row for _, row in rows], data), DATA_ERROR: pa.nulls(len(rows), pa.string())}
    batch = Batch(
        topic_id=plain.topic_id,
        records=plain.records,
        partitions=0,
        record_bytes_max=plain.record_bytes_max,
        typed=pa.table(columns),
        subjects=SUBJECTS,
        has_left_out=has_left_out,
    )
    (outcome,) = bench.commit(Append([batch], bench.new_id))
    assert isinstance(outcome, tuple)


def rewritten(bench: MaintenanceBench) -> tuple[list[Any], dict[str, Any]]:
    """The rows of ``data`` in the only segment, and the statistics of its ``add``."""
    state = bench.log.refresh()
    (segment,) = state.manifest.segments()
    adds = [
        json.loads(line)["add"]
        for info in bench.store.list("topics/t/_delta_log/")
        if info.key.endswith(".json")
        for line in bench.store.get(info.key).splitlines()
        if line.startswith(b'{"add"')
    ]
    (add,) = [one for one in adds if one["path"] == segment.path]
    return data_of(bench, segment.path), json.loads(add["stats"])


def data_of(bench: MaintenanceBench, path: str) -> list[Any]:
    """The rows of ``data`` in a segment, as any reader of Parquet has them."""
    table = pq.read_table(pa.BufferReader(bench.store.get(f"topics/t/{path}")), columns=[DATA])
    rows: list[Any] = table.column(DATA).to_pylist()
    return rows


def test_a_merge_keeps_the_columns(bench: MaintenanceBench) -> None:
    """Segments of two versions of a schema, and one from before the topic had any, become one with all members."""
    bench.create(1)
    bench.append((0, b"k", b"untyped"))
    bench.commit(AlterTopic(partition_count=None, config={"value.schema": SUBJECTS.value}, columns=TypedColumns(ORDER)))
    append(bench, ORDER, (b"a", {"id": 1}), (b"b", {"id": 2}))
    append(bench, LATER, (b"c", {"id": 3, "note": "n"}))
    bench.job().run_round(collect=False)
    rows, stats = rewritten(bench)
    assert rows == [None, {"id": 1, "note": None}, {"id": 2, "note": None}, {"id": 3, "note": "n"}]
    assert (stats["minValues"][DATA], stats["maxValues"][DATA]) == ({"id": 1, "note": "n"}, {"id": 3, "note": "n"})
    assert stats["nullCount"][DATA] == {"id": 1, "note": 3}
    bench.assert_whole()


def test_key_compaction_keeps_the_columns_of_the_newest_records(bench: MaintenanceBench) -> None:
    """What is superseded leaves the columns with its record; the newest segment is not compacted."""
    bench.create(1)
    bench.commit(AlterTopic(partition_count=None, config={"value.schema": SUBJECTS.value}, columns=TypedColumns(ORDER)))
    for key, number in ((b"a", 1), (b"b", 2), (b"a", 3), (b"c", 4), (b"d", 5)):
        append(bench, ORDER, (key, {"id": number}))
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
    bench.job(Policy(flushed_min=2, sources_max=4, fan_in=2)).run_round(collect=False)
    rows = [row for segment in bench.log.refresh().manifest.segments() for row in data_of(bench, segment.path)]
    assert sorted(row["id"] for row in rows) == [2, 3, 4, 5]
    bench.assert_whole()


def test_key_compaction_tells_tombstones_from_values_that_are_left_out(bench: MaintenanceBench) -> None:
    """A value that is left out stays as it is, without its bytes; a tombstone goes in its time, and readers get the documents."""
    bench.create(1)
    bench.commit(AlterTopic(partition_count=None, config={"value.schema": SUBJECTS.value}, columns=TypedColumns(ORDER)))
    for key, row in ((b"a", {"id": 1}), (b"b", {"id": 2}), (b"b", None), (b"c", {"id": 4}), (b"d", {"id": 5})):
        append(bench, ORDER, (key, row), has_left_out=True)
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact", "delete.retention.ms": 0}))
    policy = Policy(flushed_min=2, sources_max=4, fan_in=2)
    for _ in range(3):
        bench.job(policy).run_round(collect=False)
        bench.clock.pass_ms(120_000)
    found = []
    for segment in bench.log.refresh().manifest.segments():
        for table in SegmentReader(bench.store).scan("t", segment, [OffsetRange(0, 0, 100)]):
            found += table.column("value").to_pylist()
        stored = pq.read_table(pa.BufferReader(bench.store.get(f"topics/t/{segment.path}")), columns=["value"])
        assert stored.column("value").null_count == stored.num_rows
    assert sorted(found) == [b'{"id":1}', b'{"id":4}', b'{"id":5}']
    bench.assert_whole()
