"""Filters: what is left out can't match."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not

from log_format.segments.reader import OffsetRange, TimestampRange
from spark_pipeline.source.filters import ReadBounds, bounds_of_filters

OFFSET, PARTITION, TOPIC, TIMESTAMP = ("offset",), ("partition",), ("topic",), ("timestamp",)


def test_offsets_are_cut_exactly() -> None:
    """Strict and inclusive bounds, both sides; an empty range is none."""
    whole = OffsetRange(0, 0, 100)
    assert bounds_of_filters([GreaterThan(OFFSET, 9), LessThan(OFFSET, 20)]).within(whole) == OffsetRange(0, 10, 20)
    assert bounds_of_filters([GreaterThanOrEqual(OFFSET, 9), LessThanOrEqual(OFFSET, 20)]).within(whole) == OffsetRange(
        0, 9, 21
    )
    assert bounds_of_filters([EqualTo(OFFSET, 5)]).within(whole) == OffsetRange(0, 5, 6)
    assert bounds_of_filters([GreaterThan(OFFSET, 99)]).within(whole) is None


def test_topics_and_partitions() -> None:
    """Equality and lists, all of which must hold."""
    found = bounds_of_filters([In(PARTITION, (1, 2)), EqualTo(TOPIC, "a"), In(PARTITION, (2, 3))])
    assert [found.has("a", partition) for partition in range(4)] == [False, False, True, False]
    assert not found.has("b", 2)


def test_timestamps_are_widened_to_milliseconds() -> None:
    """A bound inside a millisecond keeps that millisecond."""
    moment = datetime(2026, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)
    first = 1_767_225_600_001
    assert bounds_of_filters([GreaterThan(TIMESTAMP, moment)]).timestamps() == TimestampRange(
        first, ReadBounds().last_ms
    )
    assert bounds_of_filters([LessThan(TIMESTAMP, moment)]).timestamps() == TimestampRange(ReadBounds().first_ms, first)


def test_what_is_not_understood_leaves_nothing_out() -> None:
    """Negations, other columns, other types."""
    assert (
        bounds_of_filters([Not(EqualTo(PARTITION, 1)), EqualTo(("key",), None), GreaterThan(OFFSET, "5")])
        == ReadBounds()
    )
    assert bounds_of_filters([Not(EqualTo(("key",), b"k")), EqualTo(("value",), b"v")]) == ReadBounds()
    assert ReadBounds().timestamps() is None
