"""Data skipping: which files can't have a row for which a predicate holds, by the statistics of Delta's ``add``.

1. A file is left out only if its statistics prove that no row of it counts. What can't be read, or compares what is not known,
   proves nothing: neither do columns whose names joined by dots are the same.
2. A comparison with null neither holds nor fails. ``Possible`` has both for the rows of a file, so that ``not`` is right, too.
3. Real numbers and times are compared with a margin: clients round the former, Delta's statistics cut the latter. Decimal numbers
   keep their digits. Of a text that was cut only the first ``TEXT_CHARACTERS`` characters are compared.

Pure. Source: Delta protocol, "Per-file Statistics".
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

import msgspec

from log_format.errors import DECODE_ERRORS

TEXT_CHARACTERS: Final = 32
"""Length to which statistics cut texts. Of a longer one the largest value has one character more, above which texts may be."""
_MARGIN_MS: Final = timedelta(milliseconds=1)
_MARGIN: Final = 1e-6
"""How much real numbers may differ, relatively: single precision is above."""
_decode: Final = msgspec.json.Decoder(float_hook=Decimal).decode


class FileFacts:
    """What is known of a file: its statistics, decoded, and its partition values."""

    __slots__ = ("_ranges", "partition_values", "stats")

    def __init__(self, stats: Mapping[str, Any], partition_values: Mapping[str, str | None]) -> None:
        self.stats = stats
        self.partition_values = partition_values
        self._ranges: dict[tuple[str, ...], tuple[Any, Any] | None] = {}

    def range_of(self, column: Column) -> tuple[Any, Any] | None:
        """Return values of a column's type between which all of the file's are, with the margin; None if none are known.

        The larger one is compared by ``may_reach`` and ``_may_exceed``.
        """
        path = column.path
        if path not in self._ranges:
            self._ranges[path] = _with_margin(*(value_of(column.kind, bound) for bound in self._bounds(column)))
        return self._ranges[path]

    def has_nulls_only(self, column: Column) -> bool:
        """Return whether the file surely has no value of the column."""
        nulls = member_at(self.stats.get("nullCount"), column.path)
        return not column.is_partition and isinstance(nulls, int) and nulls == self.stats.get("numRecords")

    def _bounds(self, column: Column) -> tuple[Any, ...]:
        if column.is_partition:
            text = self.partition_values.get(column.path[0])
            return text, text
        return tuple(member_at(self.stats.get(name), column.path) for name in ("minValues", "maxValues"))


class Possible(NamedTuple):
    """Whether a predicate may hold, and may fail, for some row of a file."""

    may_hold: bool = True
    may_fail: bool = True


class Column(NamedTuple):
    """A column. ``path``: its names from the outermost struct on; ``kind``: its type in Delta's schema."""

    path: tuple[str, ...]
    kind: str
    is_partition: bool


Predicate = Callable[[FileFacts], Possible]
Columns = Mapping[str, Column]
"""Columns that can be compared, by their names; those within structs by their path with dots."""
UNKNOWN: Final = Possible()
_NEVER: Final = Possible(may_hold=False, may_fail=False)


def columns_by_name(schema_string: str, partition_columns: Sequence[str] = ()) -> Columns:
    """Return a table's columns that are no structs, lists or maps, without those that share their name with another one."""
    found = list(_columns(msgspec.json.decode(schema_string)["fields"], (), partition_columns))
    times = Counter(".".join(path) for path, _ in found)
    return {name: column for path, column in found if column is not None and times[name := ".".join(path)] == 1}


def may_match(predicate: Predicate, stats: str | None, partition_values: Mapping[str, str | None]) -> bool:
    """Return whether a row of a file may count. ``stats``: the file's statistics as the log has them."""
    try:
        decoded = _decode(stats or "{}")
    except DECODE_ERRORS:
        return True
    return not isinstance(decoded, dict) or predicate(FileFacts(decoded, partition_values)).may_hold


def _columns(
    fields: list[Any], above: tuple[str, ...], partition_columns: Sequence[str]
) -> Iterable[tuple[tuple[str, ...], Column | None]]:
    """Yield all fields by path; None for one that is a struct, a list or a map."""
    for field in fields:
        path, kind = (*above, field["name"]), field["type"]
        if isinstance(kind, str):
            yield path, Column(path, kind, is_partition=not above and field["name"] in partition_columns)
            continue
        yield path, None
        if kind["type"] == "struct":
            yield from _columns(kind["fields"], path, partition_columns)


def know_nothing(_facts: FileFacts) -> Possible:
    """Return that anything is possible: the predicate of what can't be judged."""
    return UNKNOWN


@dataclass(frozen=True, slots=True)
class All:
    """Whether all parts hold."""

    parts: Sequence[Predicate]

    def __call__(self, facts: FileFacts) -> Possible:
        """Return what is possible in a file."""
        found = [part(facts) for part in self.parts]
        return Possible(all(one.may_hold for one in found), any(one.may_fail for one in found))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whether one part holds or more."""

    parts: Sequence[Predicate]

    def __call__(self, facts: FileFacts) -> Possible:
        """Return what is possible in a file."""
        found = [part(facts) for part in self.parts]
        return Possible(any(one.may_hold for one in found), all(one.may_fail for one in found))


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a part."""

    part: Predicate

    def __call__(self, facts: FileFacts) -> Possible:
        """Return what is possible in a file."""
        found = self.part(facts)
        return Possible(found.may_fail, found.may_hold)


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a column is null."""

    column: Column

    def __call__(self, facts: FileFacts) -> Possible:
        """Return what is possible in a file."""
        if self.column.is_partition:
            is_null = facts.partition_values.get(self.column.path[0]) in (None, "")
            return Possible(is_null, not is_null)
        nulls, records = member_at(facts.stats.get("nullCount"), self.column.path), facts.stats.get("numRecords")
        if not isinstance(nulls, int) or not isinstance(records, int):
            return UNKNOWN
        return Possible(nulls > 0, nulls < records)


@dataclass(frozen=True, slots=True)
class Compares:
    """A comparison of a column (``<``, ``<=``, ``=``, ``>=``, ``>``) with a value of its type (``value_of``)."""

    column: Column
    sign: str
    value: Any

    def __call__(self, facts: FileFacts) -> Possible:
        """Return what is possible in a file."""
        if facts.has_nulls_only(self.column):
            return _NEVER
        known = facts.range_of(self.column)
        if known is None:
            return UNKNOWN
        (low, high), value = known, self.value
        match self.sign:
            case "=":
                return Possible(low <= value and may_reach(high, value), not low == value == high)
            case "<":
                return Possible(low < value, may_reach(high, value))
            case "<=":
                return Possible(low <= value, _may_exceed(high, value))
            case ">":
                return Possible(_may_exceed(high, value), low <= value)
            case _:
                return Possible(may_reach(high, value), low < value)


@dataclass(frozen=True, slots=True)
class IsOneOf:
    """Whether a column has one of these values of its type, which are in order."""

    column: Column
    values: Sequence[Any]

    def __call__(self, facts: FileFacts) -> Possible:
        """Return what is possible in a file."""
        if facts.has_nulls_only(self.column):
            return _NEVER
        known = facts.range_of(self.column)
        if known is None:
            return UNKNOWN
        low, high = known
        at = bisect_left(self.values, low)
        if at == len(self.values):
            return Possible(may_hold=False)
        return Possible(may_reach(high, self.values[at]), may_fail=not low == self.values[at] == high)


def may_reach(high: Any, value: Any) -> bool:
    """Return whether a column's values may be the value or larger. ``high``: the largest of them, as statistics have it."""
    return _is_cut_before(high, value) if _is_cut(high) else bool(high >= value)


def _may_exceed(high: Any, value: Any) -> bool:
    return _is_cut_before(high, value) if _is_cut(high) else bool(high > value)


def _is_cut(high: Any) -> bool:
    return isinstance(high, str) and len(high) > TEXT_CHARACTERS


def _is_cut_before(high: str, value: str) -> bool:
    return high[:TEXT_CHARACTERS] >= value[:TEXT_CHARACTERS]


def member_at(values: Any, path: tuple[str, ...]) -> Any:
    """Return a column's entry in one of Delta's statistics; None without one."""
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def value_of(kind: str, raw: Any) -> Any:
    """Return a value of a column's type, from JSON or from text; None if it can't be one, or can't be compared surely."""
    if raw is None or isinstance(raw, (bool, dict, list)):
        return None
    text = str(raw)
    try:
        if kind in ("byte", "short", "integer", "long"):
            return int(text)
        if kind in ("float", "double"):
            real = float(text)
            return real if math.isfinite(real) else None
        if kind.startswith("decimal"):
            number = Decimal(text)
            return number if number.is_finite() else None
        if kind == "date":
            return date.fromisoformat(text)
        if kind == "timestamp":
            at = datetime.fromisoformat(text)
            return at if at.tzinfo is not None else None
    except (ValueError, InvalidOperation):
        return None
    return text if kind == "string" and isinstance(raw, str) else None


def _with_margin(low: Any, high: Any) -> tuple[Any, Any] | None:
    if low is None or high is None:
        return None
    if isinstance(low, float):
        return low - abs(low) * _MARGIN, high + abs(high) * _MARGIN
    try:
        return (low - _MARGIN_MS, high + _MARGIN_MS) if isinstance(low, datetime) else (low, high)
    except OverflowError:  # the first or the last moment that there is
        return None
