"""Pruning by hints loses no row: a file is left out only if none of its rows counts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delta_sharing.predicates import predicate_of
from log_format.records.data_skipping import Columns, columns_by_name, may_match

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = json.dumps(
    {
        "fields": [
            {"name": "offset", "type": "long"},
            {"name": "at", "type": "timestamp"},
            {"name": "day", "type": "string"},
            {
                "name": "data",
                "type": {
                    "type": "struct",
                    "fields": [{"name": "text", "type": "string"}, {"name": "real", "type": "float"}],
                },
            },
        ]
    }
)
COLUMNS: Columns = columns_by_name(SCHEMA, ["day"])
SIGNS = {"equal": "__eq__", "lessThan": "__lt__", "lessThanOrEqual": "__le__", "greaterThan": "__gt__"}
SIGNS["greaterThanOrEqual"] = "__ge__"
Row = dict[str, Any]

numbers = st.integers(-3, 3)
times = numbers.map(lambda number: EPOCH + timedelta(microseconds=500 * number))
texts = st.sampled_from(["", "a", "ab", "b", "\u00e9", "\U0001f600"])
reals = st.floats(-2, 2, width=32)
values: dict[str, st.SearchStrategy[Any]] = {"offset": numbers, "at": times, "data.text": texts, "data.real": reals}


def literal(value: Any) -> str:
    """As a client sends it."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)


@st.composite
def leaves(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from([*values, "day", "unknown"]))
    column = {"op": "column", "name": name, "valueType": "any"}
    if draw(st.booleans()):
        return {"op": "isNull", "children": [column]}
    value = {"op": "literal", "value": literal(draw(values.get(name, st.sampled_from(["1", "2"]))))}
    children = [column, value] if draw(st.booleans()) else [value, column]
    return {"op": draw(st.sampled_from([*SIGNS])), "children": children}


trees = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map(lambda one: {"op": "not", "children": [one]}),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda parts: {"op": parts[0], "children": parts[1]}
        ),
    ),
    max_leaves=6,
)
rows = st.fixed_dictionaries({name: st.none() | some for name, some in values.items()})


def holds(node: dict[str, Any], row: Row) -> bool | None:
    """Whether it holds for a row; None: neither. What is unknown holds, since the gateway may not leave it out."""
    op, children = node["op"], node["children"]
    if op in ("not", "and", "or"):
        found = [holds(child, row) for child in children]
        if op == "not":
            return None if found[0] is None else not found[0]
        decided = op == "or"
        return decided if decided in found else None if None in found else not decided
    value = row.get(next(child for child in children if child["op"] == "column")["name"])
    if op == "isNull":
        return value is None
    if value is None:
        return None
    left, right = (value if child["op"] == "column" else parsed(value, child["value"]) for child in children)
    return bool(getattr(left, SIGNS[op])(right))


def parsed(like: Any, text: str) -> Any:
    return datetime.fromisoformat(text) if isinstance(like, datetime) else type(like)(text)


def stats_of(some: list[Row]) -> str:
    """As Delta has them: times cut to milliseconds, no bounds where all are null."""
    found: dict[str, Any] = {"numRecords": len(some), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in values:
        known = [row[name] for row in some if row[name] is not None]
        path = name.split(".")
        for kind, value in (("minValues", min), ("maxValues", max)):
            if known:
                put(found[kind], path, shown(value(known)))
        put(found["nullCount"], path, len(some) - len(known))
    return json.dumps(found)


def put(into: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = value


def shown(value: Any) -> Any:
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z") if isinstance(value, datetime) else value


@given(tree=trees, some=st.lists(rows, min_size=1, max_size=4), day=st.sampled_from(["1", "2", None]))
def test_no_row_that_counts_is_in_a_file_that_is_left_out(
    tree: dict[str, Any], some: list[Row], day: str | None
) -> None:
    """For trees of all operations over longs, times, texts, real numbers within a struct, and a partition column."""
    predicate = predicate_of(json.dumps(tree), [], COLUMNS)
    if predicate is None or "unknown" in json.dumps(tree):
        return
    if any(holds(tree, row | {"day": day}) for row in some):
        assert may_match(predicate, stats_of(some), {"day": day})


@pytest.mark.parametrize(
    ("hint", "is_left"),
    [
        ("offset > 10", False),
        ("offset > 9", True),
        ("10 < offset", False),
        ("offset >= 5 ", True),
        ("offset <> 7", True),
        ("`offset` = 11", False),
        ("offset IS NULL", False),
        ("offset is not null", True),
        ("day = '2026-01-01'", True),
        ("day <> '2026-01-01'", False),
        ("data.text = 'it''s'", True),
        ("data.text > 'zz'", False),
        ("at < '2026-01-01T00:00:00Z'", False),
        ("at > '2026-01-01T00:00:02.000500Z'", True),  # Delta cuts bounds to milliseconds
        ("at > '2026-01-01T00:00:02.002Z'", False),
        ("at < '2026-01-01'", True),  # of which zone?
        ("offset > 10 OR offset < 3", True),  # no single comparison
        ("nothing = 3", True),
        ("", True),
    ],
)
def test_comparisons_of_sql(hint: str, is_left: bool) -> None:
    """Those of the protocol's list; all else leaves the file in."""
    bounds = (
        {"offset": 5, "at": "2026-01-01T00:00:01.000Z", "data": {"text": "a"}},
        {
            "offset": 10,
            "at": "2026-01-01T00:00:02.000Z",
            "data": {"text": "z"},
        },
    )
    stats = {"numRecords": 3, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": {"offset": 0}}
    predicate = predicate_of(None, [hint], COLUMNS)
    assert (predicate is None or may_match(predicate, json.dumps(stats), {"day": "2026-01-01"})) == is_left


@pytest.mark.parametrize("hint", ["", "[", "[]", "1", '{"op":"and"}', '{"op":"equal","children":[1,2]}', "[" * 10_000])
def test_what_is_no_predicate_leaves_all_files_in(hint: str) -> None:
    """Nothing that a client sends is an error, and nothing unknown leaves a file out; nor are statistics needed."""
    predicate = predicate_of(hint, [], COLUMNS)
    assert predicate is None or may_match(predicate, '{"numRecords":1}', {})
    deep = '{"op":"not","children":[' * 60 + "{}" + "]}" * 60
    known = predicate_of(deep, ["offset > 10"], COLUMNS)
    assert known is not None
    assert all(may_match(known, stats, {"day": None}) for stats in (None, "", "[]", "nonsense", "{}"))


@pytest.mark.parametrize(
    ("kind", "literal_text", "low", "high"),
    [
        ("decimal(10,2)", "NaN", 1, 2),
        ("decimal(10,2)", "sNaN", 1, 2),
        ("decimal(10,2)", "Infinity", 1, 2),
        ("timestamp", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        ("timestamp", "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z"),
        ("double", "inf", "Infinity", "Infinity"),
        ("double", "nan", 1, 2),
        ("long", "9" * 5000, 1, 2),
    ],
)
@pytest.mark.parametrize("op", [*SIGNS])
def test_values_at_the_ends_of_a_type_are_no_error(kind: str, literal_text: str, low: Any, high: Any, op: str) -> None:
    """Neither of a client's literals nor of what producers sent: such a file is not left out."""
    columns = columns_by_name(json.dumps({"fields": [{"name": "c", "type": kind}]}), [])
    stats = {"numRecords": 1, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": 0}}
    tree = {"op": op, "children": [{"op": "column", "name": "c"}, {"op": "literal", "value": literal_text}]}
    predicate = predicate_of(json.dumps(tree), [f"c < '{literal_text}'"], columns)
    assert predicate is None or may_match(predicate, json.dumps(stats), {})


def test_a_predicate_of_too_many_parts_leaves_out_nothing() -> None:
    """Each part is asked of each file, so a hint of a megabyte would keep a thread busy for hours."""
    leaf = {"op": "lessThan", "children": [{"op": "column", "name": "offset"}, {"op": "literal", "value": "1"}]}
    some, many = ({"op": "or", "children": [leaf] * count} for count in (200, 400))
    stats = json.dumps({"numRecords": 1, "minValues": {"offset": 5}, "maxValues": {"offset": 6}})
    judged = predicate_of(json.dumps(some), [], COLUMNS)
    assert judged is not None
    assert not may_match(judged, stats, {})
    assert predicate_of(json.dumps(many), [], COLUMNS) is None
