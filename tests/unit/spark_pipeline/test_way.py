"""The choice between readers: few records and small segments by ``format("tidelog")``, long ranges in large ones by Delta's."""

from __future__ import annotations

import pytest

from spark_pipeline.way import Way, faster_way


@pytest.mark.parametrize(
    ("commits", "segments", "records", "way"),
    [
        (0, 0, 0, Way.TIDELOG),
        (10, 10, 100_000, Way.TIDELOG),
        (50, 50, 5_000_000, Way.DELTA),
        (200_000, 140, 4_000_000, Way.TIDELOG),
        (200_000, 140, 40_000_000, Way.DELTA),
        (14_400, 2_000, 1_000_000_000, Way.DELTA),
        (20_000, 20_000, 10_000_000, Way.TIDELOG),
    ],
)
def test_the_faster_way(commits: int, segments: int, records: int, way: Way) -> None:
    """A job's first look at a small topic, a minute's records and a log of many commits need no Delta plan; a year's records
    want the native reader."""
    assert faster_way(commit_count=commits, segment_count=segments, record_count=records) is way


def test_more_records_never_speak_for_python() -> None:
    """With the same segments there is one point from which the native reader is the faster one."""
    ways = [
        faster_way(commit_count=100, segment_count=100, record_count=count) for count in range(0, 10_000_000, 100_000)
    ]
    assert ways == sorted(ways, key=[Way.TIDELOG, Way.DELTA].index)
    assert {*ways} == {Way.TIDELOG, Way.DELTA}


def test_values_that_are_not_stored_have_one_reader() -> None:
    """Whatever the sizes are: the others would give null."""
    assert faster_way(commit_count=0, segment_count=1, record_count=10**7) is Way.DELTA
    assert faster_way(commit_count=0, segment_count=1, record_count=10**7, leaves_out_values=True) is Way.TIDELOG
