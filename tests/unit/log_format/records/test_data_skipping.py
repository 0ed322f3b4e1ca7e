"""Data skipping: what every caller (conditions, Delta Sharing, Iceberg) relies on; their own tests judge whole predicates."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from log_format.records.data_skipping import Compares, Not, columns_by_name, may_match

CUT = "a" * 32 + "\U0010ffff"
LARGE = Decimal("123456789012345678901234567.891")


def schema(*fields: tuple[str, Any]) -> str:
    """Return a schema of Delta with these fields; the type of one that is a list is a struct."""

    def struct(members: Any) -> dict[str, Any]:
        found = [{"name": name, "type": struct(kind) if isinstance(kind, list) else kind} for name, kind in members]
        return {"type": "struct", "fields": found}

    return json.dumps(struct(fields))


@pytest.mark.parametrize(
    ("kind", "sign", "value", "low", "high"),
    [
        ("decimal(38,3)", "=", LARGE, str(LARGE), str(LARGE)),
        ("decimal(38,3)", ">", Decimal("123456789012345678901234567.890"), "0", str(LARGE)),
        ("string", "=", CUT + "\U0010ffff", '"' + "a" * 32 + '"', f'"{CUT}"'),
        ("string", ">", CUT, '"a"', f'"{CUT}"'),
        ("double", "=", 0.1, "0.1", "0.1"),
    ],
)
def test_digits_and_cut_texts_leave_no_row_out(kind: str, sign: str, value: Any, low: str, high: str) -> None:
    """A number has more digits than a double; a text is larger than the largest one that statistics name."""
    column = columns_by_name(schema(("c", kind)))["c"]
    stats = f'{{"numRecords":1,"minValues":{{"c":{low}}},"maxValues":{{"c":{high}}},"nullCount":{{"c":0}}}}'
    assert may_match(Compares(column, sign, value), stats, {})


def test_only_nulls_leave_a_file_out_also_of_the_opposite() -> None:
    """A comparison with null neither holds nor fails."""
    known = Compares(columns_by_name(schema(("c", "long")))["c"], "=", 1)
    for predicate in (known, Not(known)):
        assert not may_match(predicate, '{"numRecords":2,"nullCount":{"c":2}}', {})
        assert may_match(predicate, '{"numRecords":2,"nullCount":{"c":1}}', {})


@pytest.mark.parametrize("inner", ["long", [("c", "long")]])
def test_a_name_that_two_columns_share_is_not_judged(inner: Any) -> None:
    """``a.b`` beside ``b`` within ``a``: which of them is meant?"""
    text = schema(("a.b", "long"), ("a", [("b", inner)]), ("d", "long"))
    assert "a.b" not in columns_by_name(text)
    assert "d" in columns_by_name(text)
