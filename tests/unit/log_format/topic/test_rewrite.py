"""What maintenance asks of the format: streaming segments, replacing them in one step, and refusing what would damage a log."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from log_format.delta.actions import Add, Remove, Txn
from log_format.delta.fence import Fence
from log_format.errors import CorruptData
from log_format.manifest.manifest import Manifest
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.size import record_bytes
from log_format.segments.run import Run, SegmentRef
from log_format.segments.scan import scan_segment
from log_format.segments.segment import decode_footer, encode_segment
from log_format.segments.writer import SegmentWriter
from log_format.stores.memory import MemoryStore
from log_format.topic.rewrite import NewSegment, Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import Rewritten
from tests.support.topic_bench import TopicBench, TopicUser


def records(start: int, count: int, *, headers: bool = False) -> pa.Table:
    return pa.table(
        {
            "partition": [3] * count,
            "offset": list(range(start, start + count)),
            "timestamp": [(1000 + start + n) * 1000 for n in range(count)],
            "key": [b"k%d" % (n % 4) for n in range(count)],
            "value": [None if n % 5 == 0 else b"v" * n for n in range(count)],
            "headers": [[("a", b"1")] if headers else None for _ in range(count)],
        },
        schema=RECORD_SCHEMA,
    )


@pytest.mark.parametrize("row_group_bytes_max", [1, 2_000, 1 << 22])
def test_a_streamed_segment_is_a_segment(row_group_bytes_max: int) -> None:
    """Whatever pieces it came in, readers find its records by its footer and checksums, gaps included."""
    writer = SegmentWriter(compression="zstd", row_group_bytes_max=row_group_bytes_max)
    pieces = [records(0, 70), records(70, 0), records(90, 30, headers=True)]
    for piece in pieces:
        writer.add(piece)
    written = writer.finish()
    assert written is not None
    assert written.filters is not None
    assert written.runs[0] == Run(3, 0, 120, 100, written.filters.start - 4, 1000, 1119)
    store = MemoryStore()
    store.put("topics/t/compacted/x.parquet", written.data)
    found = pa.concat_tables(scan_segment(store, "t", written.ref("compacted/x.parquet")))
    assert found.equals(pa.concat_tables(pieces))
    assert SegmentWriter(compression="zstd").finish() is None


def test_row_groups_stay_small_however_large_the_pieces_are() -> None:
    """A reader decodes a whole row group for one record: none has more than the bound and one record, merged or flushed."""
    bound, most = 2_000, 20 + 3 + 119  # the largest record
    whole = records(0, 120, headers=True)
    writer = SegmentWriter(compression="zstd", row_group_bytes_max=bound)
    writer.add(whole)
    written = writer.finish()
    assert written is not None
    flushed = encode_segment(whole, compression="zstd", row_group_bytes_max=bound)
    for data, ref in ((written.data, written.ref("x")), (flushed.data, flushed.ref("x"))):
        groups = decode_footer(data[ref.footer_start :], ref).row_groups
        sizes = record_bytes(whole) + 20
        in_groups = [int(sizes[group.base_offset : group.end_offset].sum()) for group in groups]
        assert sum(in_groups) == sizes.sum()
        assert max(in_groups) <= bound + most
        assert min(in_groups[:-1]) >= bound - most


def test_a_scan_decodes_a_bounded_piece_at_a_time() -> None:
    """What compresses well takes no more memory than what does not: a piece is bounded by what it is decoded."""
    writer = SegmentWriter(compression="zstd", row_group_bytes_max=10_000)
    for start in range(0, 2_000, 100):
        writer.add(records(start, 100))
    written = writer.finish()
    assert written is not None
    store = MemoryStore()
    store.put("topics/t/compacted/x.parquet", written.data)
    pieces = list(scan_segment(store, "t", written.ref("compacted/x.parquet"), span_bytes_max=40_000))
    assert sum(int(record_bytes(piece).sum()) for piece in pieces) > 2 * 40_000
    assert max(int(record_bytes(piece).sum()) for piece in pieces) <= 40_000
    assert pa.concat_tables(pieces).column("offset").to_pylist() == list(range(2_000))


def test_a_scan_reports_damage() -> None:
    """A missing segment, a short one and a changed byte are damage, never fewer records."""
    writer = SegmentWriter(compression="zstd")
    writer.add(records(0, 50))
    written = writer.finish()
    assert written is not None
    store, ref = MemoryStore(), written.ref("compacted/x.parquet")
    changed = bytearray(written.data)
    changed[40] ^= 1
    for data in (None, written.data[:-1], bytes(changed)):
        if data is not None:
            store.put("topics/t/compacted/x.parquet", data)
        with pytest.raises(CorruptData):
            list(scan_segment(store, "t", ref))


def segment(name: str) -> SegmentRef:
    return SegmentRef(name, 100, 50, 0)


def run(base: int, end: int, *, time_ms: int = 0, size_bytes: int = 10) -> Run:
    return Run(0, base, end, end - base, size_bytes, time_ms, time_ms)


def test_segments_are_replaced_in_one_step() -> None:
    """A reader of an offset waits meanwhile: between the two steps the offset would seem to be gone, and be skipped."""
    manifest = Manifest()
    manifest.add(segment("old"), [run(0, 10)])
    found: list[Any] = []
    reader = threading.Thread(target=lambda: found.append(manifest.find(0, 5)))

    def added() -> Iterator[tuple[SegmentRef, list[Run]]]:
        reader.start()
        reader.join(0.1)
        assert reader.is_alive()
        yield segment("new"), [run(0, 10)]

    manifest.replace(["old"], added())
    reader.join()
    assert found[0].segment.path == "new"


def test_what_retention_lets_go_of() -> None:
    """Whole runs from the oldest on: by their largest timestamp, and as long as enough bytes are left."""
    manifest = Manifest()
    for number, time_ms in enumerate((10, 5, 30, 20)):
        manifest.add(segment(f"s{number}"), [run(number * 10, number * 10 + 10, time_ms=time_ms)])
    by_age = [manifest.retention_start(0, oldest_ms=oldest, bytes_max=None) for oldest in (10, 11, 30, 31)]
    assert by_age == [0, 20, 20, 40]
    by_size = [manifest.retention_start(0, oldest_ms=None, bytes_max=bytes_max) for bytes_max in (40, 39, 30, 1, 0)]
    assert by_size == [0, 0, 10, 30, 40]
    assert manifest.retention_start(0, oldest_ms=11, bytes_max=10) == 30
    assert manifest.retention_start(1, oldest_ms=11, bytes_max=10) == 0


def rewrite(bench: TopicBench, gateway: TopicUser, sources: list[SegmentRef], new: Run) -> Rewrite:
    added = NewSegment(segment=segment("compacted/n"), run=new, modification_time_ms=1, rewritten=Rewritten(1))
    return Rewrite(
        topic_id=str(gateway.log.state.topic_id),
        sources=sources,
        source_record_count=new.record_count,
        added=[added],
        uploaded=UploadedFile("compacted/n", bench.clock.monotonic_ms()),
    )


def test_a_rewrite_that_would_damage_the_log_is_not_committed(bench: TopicBench) -> None:
    """A source that is gone, offsets of another segment between, another incarnation: nothing is proposed."""
    gateway = bench.create(1)
    for value in (b"a", b"b", b"c"):
        bench.append_values(gateway, {0: [value]})
    state = gateway.log.refresh()
    first, second, third = state.manifest.segments()
    good = rewrite(bench, gateway, [first, second], run(0, 2)).propose(state, 5)
    assert good.result is RewriteOutcome.COMMITTED
    assert [type(action) for action in good.actions] == [Remove, Remove, Add]
    assert not any(action.data_change for action in good.actions if isinstance(action, Add | Remove))
    for sources, new in (([first, third], run(0, 3)), ([segment("gone")], run(0, 1))):
        proposal = rewrite(bench, gateway, sources, new).propose(state, 5)
        assert (proposal.result, proposal.actions) == (RewriteOutcome.OVERTAKEN, ())


def test_a_rewrite_that_loses_records_says_so_to_streams(bench: TopicBench) -> None:
    """Only then the removes have dataChange; the adds never."""
    gateway = bench.create(1)
    bench.append_values(gateway, {0: [b"a", b"b"]})
    state = gateway.log.refresh()
    fewer = Run(0, 0, 2, 1, 10, 0, 0)
    change = rewrite(bench, gateway, state.manifest.segments(), fewer)
    change = Rewrite(
        topic_id=change.topic_id,
        sources=change.sources,
        source_record_count=2,
        added=change.added,
        uploaded=change.uploaded,
        keys_compacted={0: 2},
    )
    removed, added, txn = change.propose(state, 5).actions
    assert isinstance(removed, Remove)
    assert isinstance(added, Add)
    assert isinstance(txn, Txn)
    assert (removed.data_change, added.data_change) == (True, False)
    assert (txn.app_id, txn.version) == ("keys-compacted-0", 2)


def test_a_fence_lets_the_log_go_on_once(bench: TopicBench) -> None:
    """It commits nothing where the log has gone on already, and changes nothing that a reader sees."""
    gateway = bench.create(1)
    version = gateway.log.state.version
    gateway.committer.commit(Fence(version=version))
    gateway.committer.commit(Fence(version=version))
    state = bench.gateway().log.refresh()
    assert state.version == version + 1
    assert state.exists
