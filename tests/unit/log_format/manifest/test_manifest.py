"""Which segment holds an offset, which one a timestamp; how runs come and go."""

from __future__ import annotations

import pytest

from log_format.errors import CorruptData
from log_format.manifest.manifest import Manifest
from log_format.segments.run import Run, SegmentRef


def segment(name: str) -> SegmentRef:
    return SegmentRef(f"segments/{name}.parquet", 100, 50, 7)


def run(partition: int, base: int, end: int, max_timestamp_ms: int = 0, size_bytes: int = 10) -> Run:
    return Run(partition, base, end, end - base, size_bytes, 0, max_timestamp_ms)


def manifest_of(*segments: tuple[str, list[Run]]) -> Manifest:
    manifest = Manifest()
    for name, runs in segments:
        manifest.add(segment(name), runs)
    return manifest


def found(manifest: Manifest, partition: int, offset: int) -> tuple[str, int, int] | None:
    located = manifest.find(partition, offset)
    return None if located is None else (located.segment.path, located.base_offset, located.end_offset)


def test_an_offset_is_found_in_its_run() -> None:
    """Each offset is found in the run that holds it; behind the last one there is nothing."""
    manifest = manifest_of(("a", [run(0, 0, 3), run(1, 0, 5)]), ("b", [run(0, 3, 4)]))
    assert [found(manifest, 0, offset) for offset in (0, 2, 3, 4)] == [
        ("segments/a.parquet", 0, 3),
        ("segments/a.parquet", 0, 3),
        ("segments/b.parquet", 3, 4),
        None,
    ]
    assert found(manifest, 1, 4) == ("segments/a.parquet", 0, 5)
    assert found(manifest, 2, 0) is None


def test_a_gap_leads_to_the_next_run() -> None:
    """An offset that is gone leads to the first run behind it."""
    manifest = manifest_of(("a", [run(0, 0, 3)]), ("b", [run(0, 10, 12)]))
    assert found(manifest, 0, 5) == ("segments/b.parquet", 10, 12)


def test_a_timestamp_is_found_in_any_order() -> None:
    """The first run with a late enough timestamp is found although timestamps go up and down."""
    manifest = manifest_of(
        *((name, [run(0, n, n + 1, t)]) for n, (name, t) in enumerate(zip("abcd", (5, 2, 9, 1), strict=True)))
    )

    def at(offset: int, timestamp_ms: int) -> int | None:
        located = manifest.find_timestamp(0, offset, timestamp_ms)
        return None if located is None else located.base_offset

    assert [at(0, 0), at(0, 5), at(0, 6), at(0, 10)] == [0, 0, 2, None]
    assert [at(1, 2), at(1, 3), at(3, 2), at(3, 1)] == [1, 2, None, 3]
    assert manifest.find_timestamp(1, 0, 0) is None


@pytest.mark.parametrize(("base", "end"), [(0, 1), (4, 6), (9, 12), (2, 20), (5, 6)])
def test_offsets_given_twice_are_corrupt(base: int, end: int) -> None:
    """A run that overlaps another one is refused: no offset ever names two records."""
    manifest = manifest_of(("a", [run(0, 0, 5)]), ("b", [run(0, 5, 10)]))
    with pytest.raises(CorruptData):
        manifest.add(segment("c"), [run(0, base, end)])


def test_a_segment_given_twice_is_corrupt() -> None:
    """One path is in the table once."""
    manifest = manifest_of(("a", [run(0, 0, 5)]))
    with pytest.raises(CorruptData):
        manifest.add(segment("a"), [run(0, 5, 6)])


def test_a_removed_segment_is_gone() -> None:
    """A segment that leaves takes all of its runs along, and may come again; one that is unknown changes nothing."""
    manifest = manifest_of(("a", [run(0, 0, 3), run(1, 0, 1)]), ("b", [run(0, 3, 4)]))
    manifest.remove("segments/a.parquet")
    manifest.remove("segments/unknown.parquet")
    assert found(manifest, 0, 0) == ("segments/b.parquet", 3, 4)
    assert found(manifest, 1, 0) is None
    assert [ref.path for ref in manifest.segments()] == ["segments/b.parquet"]
    manifest.add(segment("a"), [run(0, 0, 3)])
    assert found(manifest, 0, 1) == ("segments/a.parquet", 0, 3)


def test_runs_below_the_log_start_are_dropped() -> None:
    """A run wholly below the log start is not found any more; one that reaches beyond it is; the segment stays listed."""
    manifest = manifest_of(("a", [run(0, 0, 3)]), ("b", [run(0, 3, 6)]), ("c", [run(0, 6, 9)]))
    manifest.trim(0, 4)
    manifest.trim(7, 100)
    assert [located.base_offset for located in manifest.runs(0)] == [3, 6]
    assert manifest.segment_count() == 3
    manifest.add(segment("d"), [run(0, 1, 2), run(1, 0, 2)], {0: 4, 1: 0})
    assert [located.base_offset for located in manifest.runs(0)] == [3, 6]
    assert found(manifest, 1, 0) == ("segments/d.parquet", 0, 2)


def test_the_newest_segment_is_never_dead() -> None:
    """What holds nothing readable may go, but for the newest segment of each partition; others' runs keep a segment."""
    manifest = manifest_of(
        ("a", [run(0, 0, 3)]), ("b", [run(0, 3, 6), run(1, 0, 1)]), ("c", [run(0, 6, 9)]), ("d", [run(1, 1, 2)])
    )
    assert [ref.path[9] for ref in manifest.segments_below({0: 3})] == ["a"]
    assert [ref.path[9] for ref in manifest.segments_below({0: 9})] == ["a"]
    assert [ref.path[9] for ref in manifest.segments_below({0: 9, 1: 1})] == ["a", "b"]
    assert [ref.path[9] for ref in manifest.segments_below({0: 9, 1: 2})] == ["a", "b"]
    manifest.trim(0, 9)
    manifest.trim(1, 1)
    assert [ref.path[9] for ref in manifest.segments_below({1: 1})] == ["a", "b"]
    manifest.trim(1, 2)
    assert [ref.path[9] for ref in manifest.segments_below({})] == ["a", "b"]


def test_the_newest_timestamp_at_an_offset_is_that_of_its_run() -> None:
    """Of the run that holds the offset, or of the next one; behind the last there is none."""
    manifest = manifest_of(("a", [run(0, 0, 3, 7)]), ("b", [run(0, 5, 6, 4)]))
    assert [manifest.newest_timestamp_ms(0, offset) for offset in (0, 2, 3, 5, 6)] == [7, 7, 4, 4, None]
    assert manifest.newest_timestamp_ms(1, 0) is None


def test_sizes_are_of_the_runs() -> None:
    """A partition's size is that of its own runs, whichever partitions share their segments."""
    manifest = manifest_of(
        ("a", [run(0, 0, 3, size_bytes=7), run(1, 0, 1, size_bytes=1000)]), ("b", [run(0, 3, 4, size_bytes=5)])
    )
    assert (manifest.size_bytes(0), manifest.size_bytes(1), manifest.size_bytes(2)) == (12, 1000, 0)


def test_compacted_runs_take_the_place_of_old_ones() -> None:
    """Runs that come in the middle of the offsets are found there, and timestamps behind them still are."""
    manifest = manifest_of(("a", [run(0, 0, 3, 10)]), ("b", [run(0, 3, 6, 30)]), ("c", [run(0, 6, 9, 20)]))
    manifest.remove_all(["segments/a.parquet", "segments/b.parquet"])
    manifest.add(segment("big"), [run(0, 0, 6, 30)])
    assert [located.segment.path[9:-8] for located in manifest.runs(0)] == ["big", "c"]
    located = manifest.find_timestamp(0, 6, 20)
    assert located is not None
    assert located.base_offset == 6
    assert manifest.find_timestamp(0, 6, 21) is None
