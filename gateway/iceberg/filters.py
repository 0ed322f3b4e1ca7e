"""Filters of scans, as Iceberg's clients send them: in which files a row may count, and what is left to ask of a file's rows.

1. A file is left out only if its statistics prove that no row of it counts. What is not understood proves nothing.
2. Of each file the residual says what its rows have yet to be asked: a comparison that holds for all of them is left out.
3. A row whose value is null counts for ``not-eq`` and ``not-in`` in Iceberg's evaluation, and not in SQL: with nulls in a file
   nothing is concluded of these. It counts for no other comparison.
4. ``not`` is resolved while the filter is read: each comparison has an opposite.

Pure. Source: Iceberg's "REST Catalog API", ``Predicate``, both with ``term`` and with ``left`` and ``right``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Protocol

from gateway.problem import refused
from log_format.errors import RequestRefused
from log_format.records.data_skipping import (
    UNKNOWN,
    Column,
    Columns,
    Compares,
    FileFacts,
    IsNull,
    IsOneOf,
    Possible,
    Predicate,
    may_reach,
    member_at,
    value_of,
)

Residual = bool | dict[str, Any]
"""What is left of a filter for one file, as Iceberg's JSON: False: no row of it counts; True: all do."""
DEPTH_MAX: Final = 100
PARTS_MAX: Final = 1_000
"""Most comparisons and connectives of a filter: each is asked of each file. A set of values is one."""
_OPPOSITES: Final = {
    "lt": "gt-eq",
    "lt-eq": "gt",
    "gt": "lt-eq",
    "gt-eq": "lt",
    "eq": "not-eq",
    "not-eq": "eq",
    "in": "not-in",
    "not-in": "in",
    "is-null": "not-null",
    "not-null": "is-null",
    "is-nan": "not-nan",
    "not-nan": "is-nan",
    "starts-with": "not-starts-with",
    "not-starts-with": "starts-with",
}
_SIGNS: Final = {"lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">=", "eq": "=", "not-eq": "="}
_SWAPPED: Final = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMES: Final = ("term", "child", "left")


class Filter(Protocol):
    """A filter of rows."""

    def residual(self, facts: FileFacts) -> Residual:
        """Return what is left to ask of the rows of a file."""


class Names:
    """The columns that a filter may name.

    Args:
        ids: every field of the schema, by its id: its names joined by dots.
        columns: those that have statistics.
        is_case_sensitive: whether names count in their case only.
    """

    def __init__(self, ids: Mapping[int, str], columns: Columns, *, is_case_sensitive: bool) -> None:
        self.ids = ids
        self.columns = columns
        self._is_case_sensitive = is_case_sensitive
        self._known = {self._key(name): name for name in reversed(list(ids.values()))}

    def resolved(self, name: str, where: str = "/filter") -> str:
        """Return a field's name as the schema has it. Raise ``RequestRefused`` for an unknown one."""
        known = self._known.get(self._key(name))
        if known is None:
            raise refused(f"The table has no column {name[:200]!r}.", [(where, f"names the column {name[:200]!r}")])
        return known

    def _key(self, name: str) -> str:
        return name if self._is_case_sensitive else name.lower()


def filter_of(document: Any, names: Names) -> Filter:
    """Return the filter that a request's JSON is. Raise ``RequestRefused`` for one that is malformed or names unknown columns."""
    return _Reader(names).read(document, is_negated=False, depth=0)


class _Reader:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._count = 0

    def read(self, node: Any, *, is_negated: bool, depth: int) -> Filter:
        self._count += 1
        if depth > DEPTH_MAX or self._count > PARTS_MAX:
            raise _malformed(f"is deeper than {DEPTH_MAX}, or has more than {PARTS_MAX} parts")
        kind = _true_or_false(node)
        if isinstance(kind, bool):
            return _Constant(kind is not is_negated)
        below = depth + 1
        if kind == "not":
            return self.read(node.get("child"), is_negated=not is_negated, depth=below)
        if kind in ("and", "or"):
            parts = [self.read(node.get(side), is_negated=is_negated, depth=below) for side in ("left", "right")]
            return _Connected("and" if (kind == "and") is not is_negated else "or", *parts)
        if kind not in _OPPOSITES:
            raise _malformed(f"has the type {str(kind)[:100]!r}, which is not known")
        return self._compared(kind, node, is_negated=is_negated)

    def _compared(self, kind: str, node: dict[str, Any], *, is_negated: bool) -> Filter:
        term = next((node[name] for name in _NAMES if name in node), None)
        raw = node.get("values") if kind in ("in", "not-in") else node.get("value", node.get("right"))
        if _is_literal(term) and "right" in node:
            term, raw, kind = raw, term, _SWAPPED.get(kind, kind)
        name = self._name(term)
        kind = _OPPOSITES[kind] if is_negated else kind
        values = _values(kind, raw)
        if name is None:
            return _Leaf(_document(kind, term, values), None, None, is_opposite=False)
        column = self._names.columns.get(name)
        predicate = None if column is None else _predicate(kind, column, values)
        is_opposite = kind in ("not-eq", "not-in", "not-null", "not-starts-with")
        return _Leaf(_document(kind, name, values), predicate, column, is_opposite=is_opposite)

    def _name(self, term: Any) -> str | None:
        """Return the name of the field that a term is; None if it is anything else, such as a transform."""
        if isinstance(term, str):
            return self._names.resolved(term)
        if not isinstance(term, dict):
            raise _malformed("has a comparison without a term")
        if term.get("type") == "reference":
            number = term.get("id")
            if isinstance(number, int) and number in self._names.ids:
                return self._names.ids[number]
            return self._names.resolved(str(term.get("name")))
        return None


@dataclass(frozen=True, slots=True)
class _Constant:
    value: bool

    def residual(self, facts: FileFacts) -> Residual:
        del facts
        return self.value


@dataclass(frozen=True, slots=True)
class _Connected:
    kind: str
    left: Filter
    right: Filter

    def residual(self, facts: FileFacts) -> Residual:
        ends = self.kind == "or"  # what one part alone decides
        left = self.left.residual(facts)
        if left is ends:
            return ends
        right = self.right.residual(facts)
        if right is ends:
            return ends
        if isinstance(left, bool):
            return right
        return left if isinstance(right, bool) else {"type": self.kind, "left": left, "right": right}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A comparison. ``predicate``: None: nothing is known of it; with ``is_opposite`` the comparison holds where it does not."""

    document: dict[str, Any]
    predicate: Predicate | None
    column: Column | None
    is_opposite: bool

    def residual(self, facts: FileFacts) -> Residual:
        if self.predicate is None or self.column is None:
            return self.document
        possible = self.predicate(facts)
        nulls = member_at(facts.stats.get("nullCount"), self.column.path)
        if not isinstance(self.predicate, IsNull) and nulls != 0:
            if nulls == facts.stats.get("numRecords") and not self.is_opposite:
                return False
            possible = Possible(possible.may_hold or self.is_opposite, may_fail=True)
        if not possible.may_hold:
            return self.is_opposite
        return self.document if possible.may_fail else not self.is_opposite


@dataclass(frozen=True, slots=True)
class _StartsWith:
    column: Column
    start: str

    def __call__(self, facts: FileFacts) -> Possible:
        low, high = (member_at(facts.stats.get(name), self.column.path) for name in ("minValues", "maxValues"))
        if not isinstance(low, str) or not isinstance(high, str):
            return UNKNOWN
        return Possible(low[: len(self.start)] <= self.start and may_reach(high, self.start), may_fail=True)


def _predicate(kind: str, column: Column, values: list[Any]) -> Predicate | None:
    if kind in ("is-null", "not-null"):
        return IsNull(column)
    if kind in ("is-nan", "not-nan"):
        return None
    known = [_value(column, raw) for raw in values]
    if any(value is None for value in known):
        return None
    if kind in ("starts-with", "not-starts-with"):
        return _StartsWith(column, known[0]) if isinstance(known[0], str) else None
    if kind in _SIGNS:
        return Compares(column, _SIGNS[kind], known[0])
    return IsOneOf(column, sorted(known))


def _value(column: Column, raw: Any) -> Any:
    """Return a literal as a value of a column's type; None if it is none. Numbers are microseconds or days since the epoch."""
    is_number = isinstance(raw, int) and not isinstance(raw, bool)
    try:
        if is_number and column.kind == "timestamp":
            return _EPOCH + timedelta(microseconds=raw)
        if is_number and column.kind == "date":
            return date(1970, 1, 1) + timedelta(days=raw)
    except OverflowError:
        return None
    return value_of(column.kind, raw)


def _true_or_false(node: Any) -> Any:
    """Return a node's type; True or False for a constant."""
    kind = node.get("type") if isinstance(node, dict) else node
    if not isinstance(node, (dict, bool)):
        raise _malformed("has a part that is no expression")
    return kind == "true" if kind in ("true", "false") else kind


def _is_literal(term: Any) -> bool:
    return not isinstance(term, str) and (not isinstance(term, dict) or term.get("type") == "literal")


def _values(kind: str, raw: Any) -> list[Any]:
    """Return the literals of a comparison, without their envelopes."""
    if kind in ("is-null", "not-null", "is-nan", "not-nan"):
        return []
    if kind in ("in", "not-in"):
        listed = raw.get("values") if isinstance(raw, dict) else raw
        if not isinstance(listed, list):
            raise _malformed("has a set without values")
        return [_unwrapped(one) for one in listed]
    return [_unwrapped(raw)]


def _unwrapped(raw: Any) -> Any:
    if isinstance(raw, dict):
        raw = raw.get("value") if raw.get("type") == "literal" else None
    if raw is None or isinstance(raw, (dict, list)):
        raise _malformed("has a comparison without a literal")
    return raw


def _document(kind: str, term: Any, values: list[Any]) -> dict[str, Any]:
    made = {"type": kind, "term": term}
    if kind in ("in", "not-in"):
        return made | {"values": values}
    return made | ({"value": values[0]} if values else {})


def _malformed(what: str) -> RequestRefused:
    return refused(f"The filter {what}.", [("/filter", what)])
