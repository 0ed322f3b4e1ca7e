"""An erasure by key reads only what may have the key, by the filters of segments; everything else it reads as a whole."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compaction.filtered_segments import FilteredSegments, Reads
from compaction.policy import Policy
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import read_archive, scan_file
from log_format.cluster.identity import load_cluster
from log_format.delta.actions import decode_commit
from log_format.ids import random_id
from log_format.inspection.key_filters import CheckedFilters
from log_format.inspection.verify import verify_topic
from log_format.records.erasing import Matcher, digest_of
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.footer import decode_footer, filter_ranges
from log_format.segments.key_filters import KeyFilters, hash_key
from log_format.segments.laid_out import LaidOutWriter, decode_laid_out_footer
from log_format.segments.writer import SegmentWriter
from log_format.topic.changes import AlterTopic
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, hide_hash, note_key
from log_format.topic.live_segments import LiveSegment, live_segments
from log_format.topic.segment_tags import Layout, Rewritten
from tests.support.maintenance_bench import SMALL, MaintenanceBench, NotedStore

HOUR_MS = 3_600_000
QUIET = Policy(flushed_min=2_000, flushed_bytes_min=1 << 40, fan_in=10_000, quiet_fan_in=10_000)
"""Merges nothing by itself."""


class CountedStore(NotedStore):
    """Notes which segments are read, and how."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.whole: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        if key.endswith(".parquet") and "_delta_log" not in key:
            self.whole.append(key)
        return super().get(key, bytes_max=bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.ranges.append((key, start, end))
        return super().get_range(key, start, end)


@pytest.fixture
def bench() -> MaintenanceBench:
    """Four merged segments, each with ten keys of its own; the first record of each has the key ``all``."""
    made = MaintenanceBench(make_store=CountedStore)
    made.create(4, compression_type="uncompressed")
    for _ in range(2):
        made.append(*[(number % 4, b"user-%d" % number, b"<%d>" % number) for number in range(40)])
        made.append(*[(partition, b"all", b"all") for partition in range(4)])
    made.job(SMALL).run_round(collect=False)
    assert all(one.filters is not None for one in live(made))
    return made


def live(bench: MaintenanceBench) -> list[LiveSegment]:
    state = bench.log.refresh()
    table = checkpoint.reconcile_log(bench.store, "t", state.version, bench.clock.now_ms())
    assert table is not None
    return live_segments(table)


def ask(
    bench: MaintenanceBench, *keys: bytes, headers: Sequence[tuple[str, bytes]] = (), hashed: bool = True, **more: Any
) -> Erasure:
    """Ask to erase what these keys have, and what has one of the headers."""
    secret = load_cluster(bench.store, random_id).producer_key
    wanted = [Matcher(digest_of(secret, key)) for key in keys]
    wanted += [Matcher(digest_of(secret, value, name), name) for name, value in headers]
    hidden = tuple(hide_hash(secret, key) for key in keys) if hashed else ()
    name = f"e{len(bench.log.refresh().erasures)}"
    erasure = Erasure(erasure_id=name, requested_ms=0, wanted=tuple(wanted), hidden_hashes=hidden, **more)
    bench.commit(RequestErasure(topic_id=bench.log.refresh().existing_id, erasure=erasure))
    return erasure


def erase(bench: MaintenanceBench) -> dict[str, int]:
    """Carry out what was asked for; what maintenance says that it read."""
    store = bench.store
    assert isinstance(store, CountedStore)
    store.whole.clear()
    store.ranges.clear()
    assert bench.job(QUIET).run_round(collect=False).failed_topics == 0, bench.report.events
    assert all(one.is_rewritten for one in bench.log.refresh().erasures)
    said = bench.events("erased")[-1]
    return {name.removeprefix("read_"): said[name] for name in said if name.startswith("read_")}


def left(bench: MaintenanceBench, value: bytes) -> int:
    return sum(found == value for partition in range(4) for _, found in bench.read(partition))


def test_only_the_segment_with_the_key_is_read(bench: MaintenanceBench) -> None:
    """Of the others only filter and footer are, in one request each."""
    store = bench.store
    assert isinstance(store, CountedStore)
    by_path = {f"topics/t/{one.segment.path}": one for one in live(bench)}
    having = next(path for path, one in by_path.items() if one.runs[0].partition == 3)
    ask(bench, b"user-7")
    said = erase(bench)
    assert (said["filtered"], said["row_groups"], said["whole"]) == (4, 1, 1)
    others = [(key, start, end) for key, start, end in store.ranges if key in by_path and key != having]
    assert sorted(others) == sorted(
        (path, one.filters.start, one.segment.size_bytes)
        for path, one in by_path.items()
        if path != having and one.filters is not None
    )
    assert not set(store.whole) & (by_path.keys() - {having})
    assert said["filter_bytes"] == sum(
        one.segment.size_bytes - one.filters.start for one in by_path.values() if one.filters
    )
    assert left(bench, b"<7>") == 0
    bench.assert_whole()


def test_a_key_that_nobody_has_costs_filters_only(bench: MaintenanceBench) -> None:
    """So does a key whose records are all later than the request says."""
    for key, before_ms in ((b"nobody", None), (b"all", 1)):
        ask(bench, key, before_ms=before_ms)
        said = erase(bench)
        assert (said["filtered"], said["row_groups"], said["whole"]) == (4, 0, 0)
    bench.append((0, b"later", b"later"))
    ask(bench, b"nobody-else")
    assert erase(bench)["whole"] == 1, "the flush, which has no filter"


def test_a_second_time_no_segment_is_read_whole(bench: MaintenanceBench) -> None:
    """Keys stay, so filters still have them; their row groups are read, and nothing is left."""
    ask(bench, b"all")
    assert erase(bench)["whole"] == 4
    paths = {one.segment.path for one in live(bench)}
    ask(bench, b"all")
    said = erase(bench)
    assert (said["filtered"], said["row_groups"], said["whole"]) == (4, 4, 0)
    assert {one.segment.path for one in live(bench)} == paths


@pytest.mark.parametrize("more", [{"headers": [("h", b"x")]}, {"hashed": False}])
def test_what_filters_do_not_know_is_looked_for_everywhere(bench: MaintenanceBench, more: dict[str, Any]) -> None:
    """Headers, and requests by releases that did not tell hashes; also if another request is by keys only."""
    ask(bench, b"nobody")
    ask(bench, b"user-7", **more)
    said = erase(bench)
    assert (said["filtered"], said["whole"]) == (0, 4)
    assert left(bench, b"<7>") == 0


@pytest.mark.parametrize("damage", ["filter", "tag"])
def test_segments_without_a_readable_filter_are_read(bench: MaintenanceBench, damage: str) -> None:
    """A filter with a changed byte rules nothing out, and a segment whose ``add`` has no tag is as of an earlier release."""
    having = next(one for one in live(bench) if one.runs[0].partition == 3)
    assert having.filters is not None
    if damage == "filter":
        key = f"topics/t/{having.segment.path}"
        data = bytearray(bench.store.get(key))
        data[having.filters.start + 20 : having.segment.footer_start] = bytes(
            having.segment.footer_start - having.filters.start - 20
        )
        bench.store.put(key, bytes(data))
        [problem] = verify_topic(bench.store, "t", clock=bench.clock).problems
        assert problem == f"The filters on keys of segment {having.segment.path} do not match the log."
    else:
        for key in bench.stored("_delta_log/"):
            commit = decode_commit(bench.store.get(key), key) if key.endswith(".json") else None
            if commit is not None and any("tidelog.filters" in (add.tags or {}) for add in commit.adds):
                lines = bench.store.get(key).splitlines()
                without = map(_without_filters, lines)
                bench.store.put(key, b"\n".join(without) + b"\n")
        bench = _opened(bench)
    ask(bench, b"user-7")
    assert erase(bench)["whole"] >= 1
    assert left(bench, b"<7>") == 0


def _without_filters(line: bytes) -> bytes:
    action = msgspec.json.decode(line)
    if "add" in action:
        action["add"]["tags"].pop("tidelog.filters", None)
    return msgspec.json.encode(action)


def _opened(bench: MaintenanceBench) -> MaintenanceBench:
    """The bench anew, with the log as it is in the store now."""
    made = MaintenanceBench(clock=bench.clock, numbers=bench.numbers, make_store=CountedStore)
    for info in bench.store.list(""):
        made.store.put(info.key, bench.store.get(info.key))
    return made


def test_every_rewrite_writes_filters(bench: MaintenanceBench) -> None:
    """Merges, key compactions and erasures do, and archived files keep theirs."""
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
    bench.clock.pass_ms(25 * HOUR_MS)
    bench.append((0, b"all", b"all"))
    bench.job(Policy(flushed_min=2, sources_max=4, fan_in=2, dirty_ratio=0.01)).run_round(collect=False)
    ask(bench, b"user-1")
    erase(bench)
    rewritten = [one for one in live(bench) if not one.is_flushed]
    assert rewritten
    assert all(one.filters is not None for one in rewritten)
    bench.assert_whole()


def test_a_request_tells_no_hash_of_a_key(bench: MaintenanceBench) -> None:
    """Whoever reads the log without the cluster's key can't test a guess, nor when the request is over."""
    bench.commit(AlterTopic(partition_count=None, config={"erase.grace.ms": 0}))
    erasure = ask(bench, b"user-7")
    number = hash_key(b"user-7")
    told = [
        b"user-7",
        f"{number:x}".encode(),
        str(number).encode(),
        number.to_bytes(8, "big"),
        number.to_bytes(8, "little"),
    ]
    for key in bench.stored("_delta_log/"):
        assert not any(each in bench.store.get(key) for each in told)
    for _ in range(3):
        bench.job(QUIET).run_round(collect=True)
        bench.clock.pass_ms(30 * HOUR_MS)
    assert not bench.log.refresh().erasures
    note = bench.store.get(note_key("t", erasure.erasure_id))
    assert erasure.hidden_hashes[0].encode() not in note
    assert erasure.wanted[0].digest.encode() in note


KINDS = pytest.mark.parametrize("kind", [SegmentWriter, LaidOutWriter])


def some_groups(store: CountedStore, kind: type[SegmentWriter]) -> tuple[LiveSegment, list[range]]:
    """A file with a key for each record, in row groups of a few records; where the records of each row group are."""
    count = 50
    keys = [b"user-%d" % number for number in range(count)]
    columns = {"partition": [0] * count, "offset": list(range(count)), "timestamp": [0] * count, "key": keys}
    writer = kind(compression="zstd", row_group_bytes_max=200)
    writer.add(pa.table(columns | {"value": [b"v"] * count, "headers": [None] * count}, schema=RECORD_SCHEMA))
    written = writer.finish()
    assert written is not None
    ref = written.ref("compacted/x.parquet")
    store.put(f"topics/t/{ref.path}", written.data)
    file = LiveSegment(
        segment=ref,
        runs=written.runs,
        modification_time_ms=0,
        rewritten=Rewritten(1),
        filters=written.filters,
        layout=Layout("r", 1, ("key",)) if kind is LaidOutWriter else None,
    )
    metadata = pq.read_metadata(pa.BufferReader(written.data))
    counts = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    ends = list(accumulate(counts))
    return file, [range(end - count, end) for end, count in zip(ends, counts, strict=True)]


@KINDS
def test_only_row_groups_that_may_have_it_are_read(kind: type[SegmentWriter]) -> None:
    """A file with a filter that has the key is not read before the rewrite, but for the row groups of such filters. So are files
    that are laid out."""
    store, secret = CountedStore(), b"secret"
    one, groups = some_groups(store, kind)
    assert len(groups) > 6
    for indices in ([len(groups) - 1], [0, 2, 3], list(range(len(groups)))):
        named = [b"user-%d" % groups[index].start for index in indices]
        erasure = Erasure(
            erasure_id="e",
            requested_ms=0,
            wanted=tuple(Matcher(digest_of(secret, key)) for key in named),
            hidden_hashes=tuple(hide_hash(secret, key) for key in named),
            ends=(groups[-1].stop,),
        )
        [suspect] = FilteredSegments(store, "t", [erasure], secret).suspects([one], Reads())
        assert suspect.row_groups == tuple(indices)
        store.ranges.clear()
        read = pa.concat_tables(scan_file(store, "t", one, row_groups=suspect.row_groups))
        assert read.column("offset").to_pylist() == [offset for index in indices for offset in groups[index]]
        metadata = pq.read_metadata(pa.BufferReader(store.get(f"topics/t/{one.segment.path}")))
        stored = sum(_stored_bytes(metadata.row_group(index)) for index in indices)
        store.whole.clear()
        footer_bytes = one.segment.size_bytes - one.segment.footer_start
        assert sum(end - start for _, start, end in store.ranges) == stored + footer_bytes


def _stored_bytes(group: Any) -> int:
    return sum(group.column(index).total_compressed_size for index in range(group.num_columns))


@KINDS
def test_a_filter_that_rules_out_a_key_that_is_there_is_found(kind: type[SegmentWriter]) -> None:
    """Also where the log has the checksum of just these bytes, as a writer with a mistake would have put them."""
    store = CountedStore()
    one, groups = some_groups(store, kind)
    assert one.filters is not None
    key = f"topics/t/{one.segment.path}"
    decode = decode_footer if one.layout is None else decode_laid_out_footer

    def problem(filters: KeyFilters | None) -> str | None:
        checked = CheckedFilters(store, key, one.segment, filters, decode)
        for index, offsets in enumerate(groups):
            checked.check(index, pa.chunked_array([[b"user-%d" % offset for offset in offsets]]))
        return checked.problem

    assert problem(one.filters) is None
    assert problem(None) is None
    data = bytearray(store.get(key))
    ranges = filter_ranges(pq.read_metadata(pa.BufferReader(bytes(data))))
    assert ranges is not None
    _, end = ranges[2]
    data[end - 32 : end] = bytes(32)
    store.put(key, bytes(data))
    assert "do not match the log" in str(problem(one.filters))
    lying = KeyFilters(one.filters.start, zlib.crc32(data[one.filters.start : one.segment.footer_start]))
    assert "rule out a key that it has" in str(problem(lying))


def test_erasures_look_into_laid_out_files_by_their_filters() -> None:
    """A file of the archive that is laid out is read only if its filters have the key, and keeps filters when it is rewritten."""
    bench = MaintenanceBench(make_store=CountedStore)
    layouts = Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**12, fan_in=4)
    bench.create(
        1, retention_ms=HOUR_MS, table_retention_ms=-1, table_cluster_by="key", compression_type="uncompressed"
    )
    for number in range(8):
        bench.append((0, b"user-%d" % number, b"<%d>" % number))
        if number == 3:
            bench.clock.pass_ms(2 * HOUR_MS)
            bench.append((0, b"young", b"young"))
            bench.job(layouts).run_round(collect=False)
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, b"young", b"young"))
    bench.job(layouts).run_round(collect=False)
    laid_out = [one for one in archived(bench) if one.layout is not None]
    first, second = sorted(laid_out, key=lambda one: one.runs[0].base_offset)
    ask(bench, b"user-1")
    said = erase(bench)
    flushed = sum(one.layout is None for one in archived(bench)) + len(live(bench))
    assert (said["filtered"], said["row_groups"], said["whole"]) == (2, 1, 1 + flushed)
    store = bench.store
    assert isinstance(store, CountedStore)
    assert second.filters is not None
    assert [(start, end) for key, start, end in store.ranges if key.endswith(second.segment.path)] == [
        (second.filters.start, second.segment.size_bytes)
    ]
    after = [one for one in archived(bench) if one.layout is not None]
    assert first.segment.path not in {one.segment.path for one in after}
    assert all(one.filters is not None for one in after)
    ask(bench, b"user-1")
    assert erase(bench)["whole"] == flushed
    bench.assert_whole()


def archived(bench: MaintenanceBench) -> list[LiveSegment]:
    version = bench.log.refresh().version
    found = read_archive(bench.store, "t", version, bench.clock.now_ms(), pa.concat_tables)
    assert found is not None
    return live_segments(found)
