"""Row groups that can't have a record of a query, by the statistics of their typed columns.

Only what is certain excludes a row group. Statistics of floating-point columns leave out NaN, which is above all numbers, so they
say nothing about what is above a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from log_format.segments.footer import Footer

Value = int | float | str | Decimal | date | datetime
_FLOATING: Final = ("FLOAT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The values of a typed column that a query wants: not null, and in ``[low, high]``. None: no bound.

    Args:
        path: the column's name and the members below it, for example ``("data", "amount")``.
        low: least value.
        high: largest value.
    """

    path: tuple[str, ...]
    low: Value | None = None
    high: Value | None = None

    @classmethod
    def between(cls, path: tuple[str, ...], low: Any, high: Any) -> ColumnRange:
        """Return the range of these bounds, as far as statistics can be compared with them."""
        return cls(path, _comparable(low), _comparable(high))

    @classmethod
    def among(cls, path: tuple[str, ...], values: Iterable[Any]) -> ColumnRange:
        """Return a range that has all of these values."""
        found: list[Any] = [_comparable(value) for value in values]
        if any(value is None for value in found) or len({type(value) for value in found}) != 1:
            return cls(path)
        return cls(path, min(found), max(found))


def may_have(footer: Footer, index: int, ranges: Iterable[ColumnRange]) -> bool:
    """Return whether row group ``index`` may have a record with values in all ranges."""
    stored = [one for one in ranges if one.path[0] in (field.name for field in footer.typed_columns.fields())]
    if not stored:
        return True
    group = footer.metadata.row_group(index)
    wanted = {".".join(one.path): one for one in stored}
    for number in range(group.num_columns):
        column = group.column(number)
        one = wanted.get(column.path_in_schema)
        if one is not None and column.is_stats_set and not _may_match(one, column.statistics, group.num_rows):
            return False
    return True


def _may_match(wanted: ColumnRange, statistics: Any, row_count: int) -> bool:
    if statistics.has_null_count and statistics.null_count == row_count:
        return False
    if not statistics.has_min_max or (wanted.high is None and statistics.physical_type in _FLOATING):
        return True
    try:
        least, largest = _comparable(statistics.min), _comparable(statistics.max)
        return not (
            (wanted.low is not None and largest is not None and largest < wanted.low)  # type: ignore[operator]
            or (wanted.high is not None and least is not None and least > wanted.high)  # type: ignore[operator]
        )
    except TypeError:
        return True  # values of different kinds


def _comparable(value: Any) -> Value | None:
    """Return the value if its order is the same everywhere, else None. A time without a zone is of UTC."""
    if isinstance(value, bool) or not isinstance(value, Value) or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value
