"""Predicates that a client sends as hints: which files can't have a row for which they hold, by the files' statistics.

1. Pruning only: a file is left out if its statistics prove that no row of it counts. What can't be read, or compares what is not
   known, proves nothing. A client filters the rows itself, as the protocol says.
2. Both forms are read: the tree of JSON (``jsonPredicateHints``) and single comparisons of SQL (``predicateHints``).
3. A comparison with null neither holds nor fails. ``Possible`` has both for the rows of a file, so that ``not`` is right, too.
4. Real numbers and times are compared with a margin: clients round the former, Delta's statistics cut the latter.
5. A predicate has at most ``_PARTS_MAX`` parts, since each is asked of each file; one with more leaves out nothing.

Pure. Source: the protocol, "JSON predicates for Filtering", "SQL Expressions for Filtering", "Per-file Statistics".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec


class FileFacts:
    """What is known of a file: its statistics, decoded, and its partition values."""

    __slots__ = ("_ranges", "partition_values", "stats")

    def __init__(self, stats: Mapping[str, Any], partition_values: Mapping[str, str | None]) -> None:
        self.stats = stats
        self.partition_values = partition_values
        self._ranges: dict[tuple[str, ...], tuple[Any, Any] | None] = {}

    def range_of(self, column: Column) -> tuple[Any, Any] | None:
        """Return values of a column's type between which all of the file's are, with the margin; None if none are known."""
        path = column.path
        if path not in self._ranges:
            self._ranges[path] = _with_margin(*(value_of(column.kind, bound) for bound in self._bounds(column)))
        return self._ranges[path]

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
_DEPTH_MAX: Final = 50
_PARTS_MAX: Final = 300
_HINTS_MAX: Final = 100
"""Most single comparisons that are looked at, of those that a client sends."""
_MARGIN_MS: Final = timedelta(milliseconds=1)
_MARGIN: Final = 1e-6
"""How much real numbers may differ, relatively: single precision is above."""
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_JSON_OPS: Final = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}
_NAME: Final = r"(?P<name>[A-Za-z_][A-Za-z0-9_.]*|`[^`]+`)"
_LITERAL: Final = r"(?P<literal>'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false)"
_SQL: Final = tuple(
    re.compile(rf"\s*{pattern}\s*", re.IGNORECASE)
    for pattern in (
        rf"{_NAME}\s*(?P<op><>|<=|>=|=|<|>)\s*{_LITERAL}",
        rf"{_LITERAL}\s*(?P<flipped><>|<=|>=|=|<|>)\s*{_NAME}",
        rf"{_NAME}\s+IS\s+(?P<not>NOT\s+)?NULL",
    )
)


def columns_of(schema_string: str, partition_columns: Sequence[str]) -> Columns:
    """Return the columns of a table that a predicate may name."""
    return {
        ".".join(column.path): column
        for column in _columns(msgspec.json.decode(schema_string)["fields"], (), partition_columns)
    }


def predicate_of(json_hint: str | None, sql_hints: Sequence[str], columns: Columns) -> Predicate | None:
    """Return the predicate that all hints together are; None if none of them can be read."""
    found = [_of_sql(text, columns) for text in sql_hints[:_HINTS_MAX]]
    if json_hint is not None:
        try:
            found.append(_of_json(msgspec.json.decode(json_hint), columns, count(1)))
        except (msgspec.DecodeError, RecursionError, _TooManyParts):
            found.append(None)  # "if the server encounters any errors, it will skip filtering"
    known = [one for one in found if one is not None]
    return _All(known) if known else None


def may_match(predicate: Predicate, stats: str | None, partition_values: Mapping[str, str | None]) -> bool:
    """Return whether a row of a file may count. ``stats``: the file's statistics as the log has them."""
    try:
        decoded = msgspec.json.decode(stats or "{}")
    except msgspec.DecodeError:
        return True
    return not isinstance(decoded, dict) or predicate(FileFacts(decoded, partition_values)).may_hold


def _columns(fields: list[Any], above: tuple[str, ...], partition_columns: Sequence[str]) -> Iterable[Column]:
    for field in fields:
        path, kind = (*above, field["name"]), field["type"]
        if isinstance(kind, str):
            yield Column(path, kind, is_partition=not above and field["name"] in partition_columns)
        elif kind["type"] == "struct":
            yield from _columns(kind["fields"], path, partition_columns)


class _TooManyParts(Exception):
    """A predicate has more than ``_PARTS_MAX`` parts."""


def _of_json(node: Any, columns: Columns, numbers: Iterator[int], depth: int = 0) -> Predicate | None:
    if not isinstance(node, dict) or depth > _DEPTH_MAX:
        return None
    if next(numbers) > _PARTS_MAX:
        raise _TooManyParts
    op, children = node.get("op"), node.get("children")
    children = children if isinstance(children, list) else []
    if op in ("and", "or", "not"):
        made = [_of_json(child, columns, numbers, depth + 1) or _know_nothing for child in children]
        if op == "not":
            return _Not(made[0]) if len(made) == 1 else None
        return _All(made) if op == "and" else _Any(made) if made else None
    if not children or not all(isinstance(child, dict) for child in children):
        return None
    if op == "isNull":
        column = _column(children[0], columns)
        return None if column is None else IsNull(column)
    if op not in _JSON_OPS or len(children) != 2:
        return None
    sign, (left, right) = _JSON_OPS[op], children
    if left.get("op") == "literal":
        left, right, sign = right, left, _FLIPPED[sign]
    column = _column(left, columns)
    return None if column is None or right.get("op") != "literal" else _compared(column, sign, right.get("value"))


def _column(node: dict[str, Any], columns: Columns) -> Column | None:
    name = node.get("name")
    return columns.get(name) if node.get("op") == "column" and isinstance(name, str) else None


def _of_sql(text: str, columns: Columns) -> Predicate | None:
    match = next((found for pattern in _SQL if (found := pattern.fullmatch(text)) is not None), None)
    if match is None:
        return None
    parts = match.groupdict()
    column = columns.get(parts["name"].strip("`"))
    if column is None:
        return None
    if "literal" not in parts:
        return _Not(IsNull(column)) if parts["not"] else IsNull(column)
    literal: str = parts["literal"]
    value = literal[1:-1].replace("''", "'") if literal.startswith("'") else literal
    sign = parts.get("op") or _FLIPPED[parts["flipped"]]
    compared = _compared(column, "=" if sign == "<>" else sign, value)
    return _Not(compared) if sign == "<>" and compared is not None else compared


def _compared(column: Column, sign: str, literal: Any) -> Predicate | None:
    value = value_of(column.kind, literal)
    return None if value is None else Compares(column, sign, value)


def _know_nothing(_facts: FileFacts) -> Possible:
    return UNKNOWN


@dataclass(frozen=True, slots=True)
class _All:
    parts: Sequence[Predicate]

    def __call__(self, facts: FileFacts) -> Possible:
        found = [part(facts) for part in self.parts]
        return Possible(all(one.may_hold for one in found), any(one.may_fail for one in found))


@dataclass(frozen=True, slots=True)
class _Any:
    parts: Sequence[Predicate]

    def __call__(self, facts: FileFacts) -> Possible:
        found = [part(facts) for part in self.parts]
        return Possible(any(one.may_hold for one in found), all(one.may_fail for one in found))


@dataclass(frozen=True, slots=True)
class _Not:
    part: Predicate

    def __call__(self, facts: FileFacts) -> Possible:
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
        known = facts.range_of(self.column)
        if known is None:
            return UNKNOWN
        (low, high), value = known, self.value
        match self.sign:
            case "=":
                return Possible(low <= value <= high, not low == value == high)
            case "<":
                return Possible(low < value, high >= value)
            case "<=":
                return Possible(low <= value, high > value)
            case ">":
                return Possible(high > value, low <= value)
            case _:
                return Possible(high >= value, low < value)


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
