"""Filters of scans leave out no file with a row that counts, and residuals ask what the filter asks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.iceberg.filters import DEPTH_MAX, Names, filter_of
from log_format.errors import RequestRefused
from log_format.records.data_skipping import FileFacts, columns_by_name
from tests.support.cpu_time import is_cheap

FIELDS = [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]
COLUMNS = columns_by_name(json.dumps({"fields": FIELDS}), ())
NAMES = Names({1: "n", 2: "t"}, COLUMNS, is_case_sensitive=True)
Row = dict[str, Any]
VALUES = {"n": st.integers(-2, 2), "t": st.sampled_from(["", "a", "ab", "b", "\u00e9", "\U0001f600"])}
COMPARED = {"lt": "__lt__", "lt-eq": "__le__", "gt": "__gt__", "gt-eq": "__ge__", "eq": "__eq__", "not-eq": "__ne__"}


def leaves() -> st.SearchStrategy[Any]:
    """Comparisons of either column."""

    def of(name: str) -> st.SearchStrategy[Any]:
        value, values = VALUES[name], st.lists(VALUES[name], max_size=3)
        kinds = [
            st.builds(
                lambda kind, one: {"type": kind, "term": name, "value": one}, st.sampled_from([*COMPARED]), value
            ),
            st.builds(
                lambda kind, some: {"type": kind, "term": name, "values": some},
                st.sampled_from(["in", "not-in"]),
                values,
            ),
            st.builds(lambda kind: {"type": kind, "term": name}, st.sampled_from(["is-null", "not-null"])),
        ]
        if name == "t":
            starts = st.sampled_from(["starts-with", "not-starts-with"])
            kinds.append(st.builds(lambda kind, one: {"type": kind, "term": name, "value": one}, starts, value))
        return st.one_of(kinds)

    return st.one_of(of("n"), of("t"), st.booleans())


filters = st.recursive(
    leaves(),
    lambda below: (
        st.builds(
            lambda kind, a, b: {"type": kind, "left": a, "right": b}, st.sampled_from(["and", "or"]), below, below
        )
        | below.map(lambda one: {"type": "not", "child": one})
    ),
    max_leaves=6,
)
rows = st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()})


def counts(node: Any, row: Row, *, null_differs: bool, is_negated: bool = False) -> bool:
    """Whether a row counts. ``null_differs``: null is not equal to a value, as in Iceberg's evaluation, or unknown, as in SQL."""
    if isinstance(node, bool):
        return node is not is_negated
    kind = node["type"]
    if kind == "not":
        return counts(node["child"], row, null_differs=null_differs, is_negated=not is_negated)
    if kind in ("and", "or"):
        parts = [
            counts(node[side], row, null_differs=null_differs, is_negated=is_negated) for side in ("left", "right")
        ]
        return all(parts) if (kind == "and") is not is_negated else any(parts)
    value = row[node["term"]]
    if kind in ("is-null", "not-null"):
        return ((value is None) is (kind == "is-null")) is not is_negated
    is_opposite = kind in (("eq", "in", "starts-with") if is_negated else ("not-eq", "not-in", "not-starts-with"))
    if value is None:
        return null_differs and is_opposite
    if kind in ("in", "not-in"):
        found = (value in node["values"]) is (kind == "in")
    elif kind in ("starts-with", "not-starts-with"):
        found = value.startswith(node["value"]) is (kind == "starts-with")
    else:
        found = getattr(value, COMPARED[kind])(node["value"])
    return bool(found) is not is_negated


def facts_of(found: list[Row]) -> FileFacts:
    """A file's statistics."""
    lower: dict[str, Any] = {}
    upper: dict[str, Any] = {}
    for name in VALUES:
        known = [row[name] for row in found if row[name] is not None]
        if known:
            lower[name], upper[name] = min(known), max(known)
    nulls = {name: sum(row[name] is None for row in found) for name in VALUES}
    return FileFacts({"numRecords": len(found), "minValues": lower, "maxValues": upper, "nullCount": nulls}, {})


@given(document=filters, found=st.lists(rows, min_size=1, max_size=4), null_differs=st.booleans())
def test_a_residual_counts_the_same_rows(document: Any, found: list[Row], null_differs: bool) -> None:
    """Whatever null means to the reader: False for a file only if no row of it counts, and True only if all do."""
    residual = filter_of(document, NAMES).residual(facts_of(found))
    for row in found:
        wanted = counts(document, row, null_differs=null_differs)
        assert counts(residual, row, null_differs=null_differs) is wanted, (document, residual, row)


@given(document=filters)
def test_a_file_without_statistics_is_kept(document: Any) -> None:
    """Unless the filter is false for any row."""
    rows_of_all: list[Row] = [{"n": 0, "t": "a"}, {"n": None, "t": None}, {"n": 2, "t": "b"}, {"n": -2, "t": ""}]
    if filter_of(document, NAMES).residual(FileFacts({"numRecords": 4}, {})) is False:
        assert not any(counts(document, row, null_differs=True) for row in rows_of_all)


def test_a_set_costs_a_file_the_same_however_large_it_is() -> None:
    """Each of 100,000 values counts, by a search among them: one after the other takes a second for each file."""
    document = {"type": "in", "term": "n", "values": list(range(0, 200_000, 2))}
    judged = filter_of(document, NAMES)

    def judge() -> None:
        for number in range(1_000, 1_020):
            assert judged.residual(facts_of([{"n": number, "t": "a"}])) is (number % 2 == 0)
        assert judged.residual(facts_of([{"n": 5, "t": "a"}, {"n": 7, "t": "a"}])) == document

    assert is_cheap(judge, 0.1)


def test_filters_have_a_bound() -> None:
    """In depth, as in number of parts."""
    document: Any = True
    for _ in range(DEPTH_MAX + 1):
        document = {"type": "not", "child": document}
    with pytest.raises(RequestRefused, match="deeper"):
        filter_of(document, NAMES)


def test_a_filter_has_so_many_parts() -> None:
    """Each is asked of each file: with 10,000 parts a page of a plan would take a minute of a processor."""
    document: Any = {"type": "eq", "term": "n", "value": 1}
    for _ in range(10):
        document = {"type": "or", "left": document, "right": document}
    with pytest.raises(RequestRefused, match="more than"):
        filter_of(document, NAMES)
