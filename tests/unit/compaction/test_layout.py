"""The layout of the archive: maintenance rewrites its files in large ones, in the order of ``table.cluster.by``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from compaction.layout_rewrite import LayoutTask, lay_out
from compaction.policy import Policy
from log_format.checkpoints.archive_rows import read_archive, scan_file
from log_format.checkpoints.topic_log import TopicLog
from log_format.cluster.identity import load_cluster
from log_format.errors import CorruptData
from log_format.ids import NewId, random_id
from log_format.inspection.verify import verify_topic
from log_format.records.erasing import Matcher, digest_of
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.segments.laid_out import scan_laid_out
from log_format.segments.writer import SegmentWriter
from log_format.stores.memory import MemoryStore
from log_format.topic.archiving import RewriteArchived
from log_format.topic.changes import AlterTopic
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.pin_changes import CreatePin
from log_format.topic.rewrite import RewriteOutcome
from log_format.topic.segment_tags import Layout, Rewritten
from tests.support.clocks import ManualClock
from tests.support.killed_store import Broken, KilledStore
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.table_rows import rows_by_delta, rows_by_log

HOUR = 3_600_000
FOURS = Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**12, fan_in=4)
"""Nothing is merged in the log; four files of the archive become one."""


def fill(bench: MaintenanceBench, first: int, end: int) -> None:
    for number in range(first, end):
        bench.append((number % 2, b"k%d" % (number * 7 % 10), b"v%d" % number), (0, None, b"w%d" % number))
        bench.clock.pass_ms(10)


def archive_some(bench: MaintenanceBench, count: int, policy: Policy = FOURS, **config: object) -> None:
    """``count`` flushes of two records that are too old for the log, and a young one, after a round of maintenance."""
    bench.create(2, retention_ms=HOUR, **{"table_retention_ms": -1, **config})
    fill(bench, 0, count)
    run(bench, count, policy)


def run(bench: MaintenanceBench, first: int, policy: Policy = FOURS) -> None:
    bench.clock.pass_ms(2 * HOUR)
    fill(bench, first, first + 2)
    assert bench.job(policy).run_round(collect=True).failed_topics == 0, bench.report.events
    bench.log.refresh()


def archived_files(bench: MaintenanceBench) -> list[LiveSegment]:
    version = bench.log.refresh().version
    found = read_archive(bench.store, "t", version, bench.clock.now_ms(), pa.concat_tables)
    return [] if found is None else live_segments(found)


def test_small_files_become_large_ones(bench: MaintenanceBench, tmp_path: Path) -> None:
    """Four at a time, and four of these; each record is there once with its offset, for the log's own reader and for Delta's."""
    archive_some(bench, 4)
    assert [len(file.runs) for file in archived_files(bench)] == [2]
    before = rows_by_log(bench.store, "t", bench.clock)
    assert len(before) == len(set(before)) == 2 * 6
    bench.assert_whole()
    rows = rows_by_delta(bench.store, "t", tmp_path)
    assert [row[:2] for row in rows] == sorted((partition, offset) for partition, offset, _, _ in before)


def test_merges_go_on_by_number_of_rewrites(bench: MaintenanceBench) -> None:
    """Four files that were rewritten once become one that was rewritten twice, so a record is rewritten a few times at most."""
    archive_some(bench, 4)
    for number in range(1, 5):
        run(bench, 100 * number)
        run(bench, 100 * number + 50)
    times = [file.layout.times for file in archived_files(bench) if file.layout is not None]
    assert 2 in times
    assert sum(1 for one in times if one == 1) < 4
    rows = rows_by_log(bench.store, "t", bench.clock)
    assert len(rows) == len(set(rows))
    bench.assert_whole()


@pytest.mark.parametrize("columns", ["key", "key,timestamp", "timestamp,partition", "data.id"])
def test_files_are_ordered_by_columns(bench: MaintenanceBench, columns: str, tmp_path: Path) -> None:
    """Whatever the columns, each record is there once with its offset. Files say by what they are ordered, and are."""
    archive_some(bench, 8, table_cluster_by=columns)
    files = archived_files(bench)
    assert {file.layout.columns for file in files if file.layout is not None} == {tuple(columns.split(","))}
    rows = rows_by_log(bench.store, "t", bench.clock)
    assert len(rows) == len(set(rows)) == 2 * 10
    assert len(rows_by_delta(bench.store, "t", tmp_path)) == len(rows)
    bench.assert_whole()
    for file in files:
        keys = [key for table in scan_file(bench.store, "t", file) for key in table.column("key").to_pylist()]
        assert columns != "key" or keys == sorted(keys, key=lambda key: (key is None, key or b""))


def test_another_order_is_taken_up(bench: MaintenanceBench) -> None:
    """After a change of ``table.cluster.by`` what was ordered before is rewritten; after its end everything stays as it is."""
    archive_some(bench, 8, table_cluster_by="key")
    bench.commit(AlterTopic(partition_count=None, config={"table.cluster.by": "timestamp, key"}))
    run(bench, 20)
    run(bench, 30)
    orders = {file.layout.columns for file in archived_files(bench) if file.layout is not None}
    assert orders == {("timestamp", "key")}
    bench.commit(AlterTopic(partition_count=None, config={"table.cluster.by": None}))
    before = {file.segment.path for file in archived_files(bench) if file.layout is not None}
    bench.job(FOURS).run_round(collect=True)
    assert before <= {file.segment.path for file in archived_files(bench)}
    rows = rows_by_log(bench.store, "t", bench.clock)
    assert len(rows) == len(set(rows)) == 2 * 14
    bench.assert_whole()


@pytest.mark.parametrize("puts_left", range(8))
def test_maintenance_may_be_killed_anywhere(puts_left: int) -> None:
    """Whatever write it dies before, each record is in the table once, and the next round finishes the work. What the killed one
    left is collected."""
    bench = MaintenanceBench(make_store=KilledStore)
    store = bench.store
    assert isinstance(store, KilledStore)
    bench.create(2, retention_ms=HOUR, table_retention_ms=-1, table_cluster_by="key")
    fill(bench, 0, 6)
    bench.clock.pass_ms(2 * HOUR)
    fill(bench, 6, 8)
    expected = sorted(rows_by_log(store, "t", bench.clock), key=str)
    store.puts_left = puts_left
    with pytest.raises(Broken):  # the last of eight writes is that of a checkpoint's hint
        bench.job(FOURS).run_round(collect=False)
    store.puts_left = None
    assert sorted(rows_by_log(store, "t", bench.clock), key=str) == expected
    bench.assert_whole()
    bench.job(FOURS).run_round(collect=False)
    (file,) = archived_files(bench)
    assert file.layout is not None
    bench.clock.pass_ms(48 * HOUR)
    bench.job(FOURS).run_round(collect=True)
    assert bench.stored("compacted/") == [f"topics/t/{file.segment.path}"]
    assert sorted(rows_by_log(store, "t", bench.clock), key=str) == expected
    bench.assert_whole()


def test_what_changes_the_archive_meanwhile_wins(bench: MaintenanceBench) -> None:
    """A rewrite that was planned before another process changed the archive does nothing; appends do not disturb it."""
    archive_some(bench, 3)
    files = archived_files(bench)
    state = bench.log.refresh()
    task = LayoutTask(
        topic="t",
        sources=tuple(files),
        layout=Layout("r", 1, ()),
        file_bytes=1 << 28,
        compression="zstd",
        columns=NO_TYPED_COLUMNS,
    )
    added = lay_out(bench.store, task, bench.new_id)

    def replacing(version: int) -> RewriteArchived:
        return RewriteArchived(
            topic_id=state.existing_id,
            archive_version=version,
            sources=[file.segment for file in files],
            added=added,
            uploaded=None,
            changes_records=False,
        )

    fill(bench, 50, 51)
    assert bench.commit(replacing(state.archive.version - 1)) is RewriteOutcome.OVERTAKEN
    assert bench.commit(replacing(state.archive.version)) is RewriteOutcome.COMMITTED
    assert bench.commit(replacing(state.archive.version)) is RewriteOutcome.OVERTAKEN
    assert bench.log.refresh().archive.counts == (1, added[0].segment.size_bytes)
    assert TopicLog(bench.store, "t", bench.clock).refresh().archive.counts == (1, added[0].segment.size_bytes)
    bench.assert_whole()


def test_a_pinned_version_stays_as_it_was(bench: MaintenanceBench) -> None:
    """The files of before the rewrite stay while a pin names their version, and its bytes are the same."""
    archive_some(bench, 3, deleted_file_retention_ms=0)
    state = bench.log.refresh()
    bench.commit(CreatePin(topic_id=state.existing_id, name="p", expires_at_ms=None))
    pinned = {file.segment.path: bench.store.get(f"topics/t/{file.segment.path}") for file in archived_files(bench)}
    run(bench, 60)
    bench.clock.pass_ms(48 * HOUR)
    bench.job(FOURS).run_round(collect=True)
    assert not pinned.keys() & {file.segment.path for file in archived_files(bench)}
    assert {path: bench.store.get(f"topics/t/{path}") for path in pinned} == pinned


@pytest.mark.parametrize("columns", [(), ("key",), ("key", "timestamp"), ("data.id", "partition")])
def test_what_does_not_fit_into_memory_is_spread_over_buckets(columns: tuple[str, ...]) -> None:
    """Several files of the wanted size come out, each record in one of them; the first column's ranges are narrow in each. Typed
    columns that the sources lack are null."""
    store = MemoryStore(clock=ManualClock())
    sources, number = some_segments(store)
    typed = TypedColumns(data=pa.struct([("id", pa.int64())]))
    task = LayoutTask(
        topic="t",
        sources=tuple(sources),
        layout=Layout("r", 1, columns),
        file_bytes=1 << 20,
        compression="uncompressed",
        columns=typed if "data.id" in columns else NO_TYPED_COLUMNS,
        bucket_bytes=2 << 20,
    )
    added = lay_out(store, task, count_from_one())
    assert len(added) > 2
    tables = [pa.concat_tables(scan_laid_out(store, "t", one.segment)) for one in added]
    found = pa.concat_tables(tables)
    places = list(zip(found.column("partition").to_pylist(), found.column("offset").to_pylist(), strict=True))
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(number)]
    if columns == ("key",):
        keys = found.column("key").to_pylist()
        assert keys == sorted(keys)
    if columns == ():
        assert places == sorted(places)
    if len(columns) == 2 and columns[0] == "key":
        widths = [len(set(table.column("key").to_pylist())) / 2 / number for table in tables]
        assert min(widths) < 0.6, widths


def count_from_one() -> NewId:
    numbers = count(1)
    return lambda: f"id-{next(numbers)}"


def some_segments(store: MemoryStore) -> tuple[list[LiveSegment], int]:
    """Two segments of a partition each, with as many records of 1 KiB, 12 MiB together, and random keys."""
    number, found = 6_000, []
    random = np.random.default_rng(3)
    for partition in (0, 1):
        writer = SegmentWriter(compression="uncompressed")
        keys = random.permutation(number)
        writer.add(
            pa.table(
                {
                    "partition": pa.array(np.full(number, partition), pa.int32()),
                    "offset": pa.array(np.arange(number)),
                    "timestamp": pa.array(random.permutation(number) * 1000).cast(pa.timestamp("us", "UTC")),
                    "key": pa.array([b"%08d" % key for key in keys]),
                    "value": pa.array([b"v" * 1000] * number, pa.binary()),
                    "headers": pa.array([[]] * number, RECORD_SCHEMA.field("headers").type),
                },
                schema=RECORD_SCHEMA,
            )
        )
        written = writer.finish()
        assert written is not None
        path = f"segments/{partition}.parquet"
        store.put(f"topics/t/{path}", written.data)
        found.append(
            LiveSegment(segment=written.ref(path), runs=written.runs, modification_time_ms=1, rewritten=Rewritten(1))
        )
    return found, number


@pytest.mark.parametrize("damage", ["body", "footer", "missing"])
def test_damage_is_found(bench: MaintenanceBench, damage: str) -> None:
    """``verify`` reads laid out files, too, and a rewrite of a damaged one does nothing."""
    archive_some(bench, 4)
    (file,) = archived_files(bench)
    key = f"topics/t/{file.segment.path}"
    data = bytearray(bench.store.get(key))
    data[10 if damage == "body" else file.segment.footer_start + 9] ^= 1
    bench.store.delete(key)
    if damage != "missing":
        bench.store.put(key, bytes(data))
    (problem,) = verify_topic(bench.store, "t", clock=bench.clock).problems
    assert file.segment.path in problem
    with pytest.raises(CorruptData):
        [*scan_file(bench.store, "t", file)]


def test_each_damaged_byte_is_found(bench: MaintenanceBench) -> None:
    """Also where Parquet would decode it as another number or another text."""
    archive_some(bench, 4, compression_type="uncompressed")
    (file,) = archived_files(bench)
    key = f"topics/t/{file.segment.path}"
    data = bench.store.get(key)
    end = data.index(b"w3") + 2
    for position in range(4, end, 5):
        damaged = bytearray(data)
        damaged[position] ^= 1
        bench.store.put(key, bytes(damaged))
        with pytest.raises(CorruptData):
            [*scan_file(bench.store, "t", file)]


def test_a_record_that_is_there_twice_is_found(bench: MaintenanceBench) -> None:
    """``verify`` notices offsets that two files have of which one is laid out at least."""
    archive_some(bench, 3)
    first, *others = archived_files(bench)
    task = LayoutTask(
        topic="t",
        sources=(first,),
        layout=Layout("r", 1, ()),
        file_bytes=1 << 28,
        compression="zstd",
        columns=NO_TYPED_COLUMNS,
    )
    added = [*lay_out(bench.store, task, bench.new_id), *lay_out(bench.store, task, bench.new_id)]
    for source, number in ((others[0], 1), (first, 2)):
        state = bench.log.refresh()
        change = RewriteArchived(
            topic_id=state.existing_id,
            archive_version=state.archive.version,
            sources=[source.segment],
            added=added[number - 1 : number],
            uploaded=None,
            changes_records=False,
        )
        bench.commit(change)
        problems = verify_topic(bench.store, "t", clock=bench.clock).problems
        assert any("twice" in problem for problem in problems), problems


@pytest.mark.parametrize("keep", ["key", "nothing"])
def test_erasures_reach_laid_out_files(bench: MaintenanceBench, keep: Literal["key", "nothing"]) -> None:
    """What they mean is gone, everything else is as before and in order, and the file is laid out as it was."""
    archive_some(bench, 8, table_cluster_by="key", compression_type="uncompressed", erase_keep=keep)
    before = rows_by_log(bench.store, "t", bench.clock)
    secret = load_cluster(bench.store, random_id).producer_key
    wanted = (Matcher(digest_of(secret, b"k1")),)
    erasure = Erasure(erasure_id="e", requested_ms=0, wanted=wanted, keep=keep)
    bench.commit(RequestErasure(topic_id=bench.log.refresh().existing_id, erasure=erasure))
    assert bench.job(FOURS).run_round(collect=True).failed_topics == 0, bench.report.events
    gone = [row for row in before if row[2] == b"k1"]
    assert gone
    kept = [(*row[:3], None) for row in gone] if keep == "key" else []
    expected = [row for row in before if row[2] != b"k1"] + kept
    assert sorted(rows_by_log(bench.store, "t", bench.clock), key=str) == sorted(expected, key=str)
    files = [file for file in archived_files(bench) if file.layout is not None]
    assert [file.layout.columns for file in files if file.layout is not None] == [("key",)]
    for file in files:
        assert not [
            value for _, _, _, value in gone if (value or b"") in bench.store.get(f"topics/t/{file.segment.path}")
        ]
    bench.assert_whole()
