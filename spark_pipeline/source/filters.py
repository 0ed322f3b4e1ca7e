"""Pushdown of a query's filters: on topics, partitions, offsets and timestamps into the plan, on the key and typed columns into
tasks.

Pushdown only excludes what can't match. Spark applies every filter itself afterwards, so a filter that is not understood here
costs time and never a record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from log_format.records.typed_columns import TYPED_NAMES
from log_format.segments.reader import OffsetRange, TimestampRange
from log_format.segments.row_group_statistics import ColumnRange

_OFFSET_END: Final = 2**63 - 1
_Comparison = EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBounds:
    """Bounds of possible matches. ``None``: no bound. Offsets are ``[first_offset, end_offset)``, timestamps ``[first_ms,
    last_ms]``."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _OFFSET_END
    first_ms: int = TIMESTAMP_MS_MIN
    last_ms: int = TIMESTAMP_MS_MAX
    key: bytes | None = None
    """Key that matching records have; None: any."""
    values: tuple[ColumnRange, ...] = ()
    """Values of typed columns that matching records have."""

    def has(self, topic: str, partition: int) -> bool:
        """Return whether records of the partition may match."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def within(self, each: OffsetRange) -> OffsetRange | None:
        """Return the part of the range that may match; None if there is none."""
        start, end = max(each.start_offset, self.first_offset), min(each.end_offset, self.end_offset)
        return OffsetRange(each.partition, start, end) if start < end else None

    def timestamps(self) -> TimestampRange | None:
        """Return the bounds on timestamps, if there are any."""
        if self.first_ms <= TIMESTAMP_MS_MIN and self.last_ms >= TIMESTAMP_MS_MAX:
            return None
        return TimestampRange(self.first_ms, self.last_ms)


def bounds_of_filters(filters: Iterable[Filter]) -> ReadBounds:
    """Return the bounds of what may match all filters together, as far as they are understood."""
    found = ReadBounds()
    for each in filters:
        if _name(each) in TYPED_NAMES:
            found = replace(found, values=(*found.values, *_values(each)))
        elif isinstance(each, In):
            found = _narrow_to(found, each.attribute, each.value)
        elif isinstance(each, EqualTo | EqualNullSafe) and each.attribute in (("topic",), ("partition",)):
            found = _narrow_to(found, each.attribute, (each.value,))
        elif isinstance(each, EqualTo | EqualNullSafe) and each.attribute == ("key",):
            if isinstance(each.value, bytes | bytearray):
                found = replace(found, key=bytes(each.value))
        elif isinstance(each, _Comparison):
            if each.attribute == ("offset",) and isinstance(each.value, int):
                found = _by_offset(found, each, each.value)
            elif each.attribute == ("timestamp",) and isinstance(each.value, datetime):
                found = _by_timestamp(found, each, each.value)
    return found


def _name(each: Filter) -> str:
    """Return the name of the column that a filter is about, "" if it is about several."""
    return getattr(each, "attribute", ("",))[0]


def _values(each: Filter) -> Iterable[ColumnRange]:
    """Yield the values that a filter on a typed column, or a member of it, lets pass."""
    if isinstance(each, IsNotNull):
        yield ColumnRange(each.attribute)
    elif isinstance(each, In):
        yield ColumnRange.among(each.attribute, each.value)
    elif isinstance(each, _Comparison) and each.value is not None:
        low = None if isinstance(each, LessThan | LessThanOrEqual) else each.value
        high = None if isinstance(each, GreaterThan | GreaterThanOrEqual) else each.value
        yield ColumnRange.between(each.attribute, low, high)


def _narrow_to(found: ReadBounds, attribute: tuple[str, ...], values: Iterable[Any]) -> ReadBounds:
    names = frozenset(values)
    if attribute == ("topic",):
        return replace(found, topics=names if found.topics is None else found.topics & names)
    if attribute == ("partition",):
        return replace(found, partitions=names if found.partitions is None else found.partitions & names)
    return found


def _by_offset(found: ReadBounds, each: _Comparison, offset: int) -> ReadBounds:
    first, end = found.first_offset, found.end_offset
    if not isinstance(each, LessThan | LessThanOrEqual):
        first = max(first, offset + isinstance(each, GreaterThan))
    if not isinstance(each, GreaterThan | GreaterThanOrEqual):
        end = min(end, offset + (not isinstance(each, LessThan)))
    return replace(found, first_offset=first, end_offset=end)


def _by_timestamp(found: ReadBounds, each: _Comparison, moment: datetime) -> ReadBounds:
    """Narrow the timestamps, widened to whole milliseconds and with strict bounds as inclusive, so that no match is excluded."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    floor_ms = (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) // 1000
    first, last = found.first_ms, found.last_ms
    if not isinstance(each, LessThan | LessThanOrEqual):
        first = max(first, floor_ms)
    if not isinstance(each, GreaterThan | GreaterThanOrEqual):
        last = min(last, floor_ms)
    return replace(found, first_ms=first, last_ms=last)
