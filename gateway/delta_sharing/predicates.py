"""Predicates that a client sends as hints, so that files without a row for which they hold are left out (``data_skipping``).

1. A hint that can't be read, or compares what is not known, leaves no file out. A client filters the rows itself, as the protocol
   says.
2. Both forms are read: the tree of JSON (``jsonPredicateHints``) and single comparisons of SQL (``predicateHints``).
3. A predicate has at most ``_PARTS_MAX`` parts, since each is asked of each file; one with more leaves out nothing.

Pure. Source: the protocol, "JSON predicates for Filtering", "SQL Expressions for Filtering".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from log_format.errors import DECODE_ERRORS
from log_format.records.data_skipping import (
    All,
    AnyOf,
    Column,
    Columns,
    Compares,
    IsNull,
    Not,
    Predicate,
    know_nothing,
    value_of,
)

_DEPTH_MAX: Final = 50
_PARTS_MAX: Final = 300
_HINTS_MAX: Final = 100
"""Most single comparisons that are looked at, of those that a client sends."""
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


def predicate_of(json_hint: str | None, sql_hints: Sequence[str], columns: Columns) -> Predicate | None:
    """Return the predicate that all hints together are; None if none of them can be read."""
    found = [_of_sql(text, columns) for text in sql_hints[:_HINTS_MAX]]
    if json_hint is not None:
        try:
            found.append(_of_json(msgspec.json.decode(json_hint), columns, count(1)))
        except (*DECODE_ERRORS, _TooManyParts):
            found.append(None)  # "if the server encounters any errors, it will skip filtering"
    known = [one for one in found if one is not None]
    return All(known) if known else None


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
        made = [_of_json(child, columns, numbers, depth + 1) or know_nothing for child in children]
        if op == "not":
            return Not(made[0]) if len(made) == 1 else None
        return All(made) if op == "and" else AnyOf(made) if made else None
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
        return Not(IsNull(column)) if parts["not"] else IsNull(column)
    literal: str = parts["literal"]
    value = literal[1:-1].replace("''", "'") if literal.startswith("'") else literal
    sign = parts.get("op") or _FLIPPED[parts["flipped"]]
    compared = _compared(column, "=" if sign == "<>" else sign, value)
    return Not(compared) if sign == "<>" and compared is not None else compared


def _compared(column: Column, sign: str, literal: Any) -> Predicate | None:
    value = value_of(column.kind, literal)
    return None if value is None else Compares(column, sign, value)
