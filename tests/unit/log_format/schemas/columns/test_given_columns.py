"""Columns that a sender made: which conversions lose nothing, and what is said of those that would."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from log_format.records.canonical_json import render
from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.given_columns import CELLS_MAX, UnfitType, fitted, spelled
from log_format.schemas.columns.shape import ListOf, MapOf, Member, Record, Scalar, Shape

_INT, _LONG, _FLOAT, _DOUBLE = (Scalar(one) for one in (pa.int32(), pa.int64(), pa.float32(), pa.float64()))
_TIME, _DATE, _TEXT = Scalar(TIMESTAMP), Scalar(pa.date32()), Scalar(pa.string())


def _fit(shape: Shape, values: pa.Array, **member: Any) -> tuple[list[Any], dict[int, str]]:
    """The column of a member ``a``, and what is wrong with it by row."""
    struct = pa.StructArray.from_arrays([values], names=["a"])
    column, faults = fitted(Record((Member("a", shape, **member),)), struct)
    column.validate(full=True)
    return column.field(0).to_pylist(), {row: f"{fault.path}: {fault.what}" for row, fault in faults.items()}


@pytest.mark.parametrize(
    ("shape", "given", "good", "bad"),
    [
        (_INT, pa.uint64(), [0, 2**31 - 1], [2**31, 2**64 - 1]),
        (_INT, pa.int64(), [-(2**31)], [-(2**31) - 1]),
        (_LONG, pa.uint64(), [2**63 - 1], [2**63]),
        (_LONG, pa.int8(), [-128], []),
        (_DOUBLE, pa.int64(), [2**53, -(2**53)], [2**53 + 1]),
        (_DOUBLE, pa.float64(), [0.1, 1e308], [float("nan"), float("-inf")]),
        (_FLOAT, pa.float64(), [0.5], [0.1, 1e300]),
        (_FLOAT, pa.int32(), [2**24], [2**24 + 1]),
        (
            Scalar(pa.decimal128(5, 2)),
            pa.decimal128(38, 4),
            [Decimal("999.9900")],
            [Decimal(1000), Decimal("0.0010")],
        ),
        (Scalar(pa.decimal128(38, 0)), pa.uint64(), [2**64 - 1], []),
        (Scalar(pa.decimal128(3, 1)), pa.int64(), [99, -99], [100, -100, 2**63 - 1]),
        (_TEXT, pa.string(), ["ä"], []),
        (Scalar(pa.string(), ("A", "B")), pa.string(), ["A", "B"], ["C", ""]),
        (Scalar(pa.binary(), size=2), pa.binary(), [b"ab"], [b"", b"abc"]),
    ],
)
def test_only_conversions_that_lose_nothing(shape: Shape, given: pa.DataType, good: list[Any], bad: list[Any]) -> None:
    """Values stay what they are; those that the column can't have are faults of their rows."""
    found, faults = _fit(shape, pa.array([*good, *bad], given))
    assert found[: len(good)] == good
    assert list(faults) == list(range(len(good), len(good) + len(bad)))


def test_times_of_every_unit() -> None:
    """A time without a zone is UTC; parts of a microsecond and other years than 1 to 9999 are refused."""
    moment = datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    seconds = int(moment.timestamp())
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "UTC", "Mars/Olympus"):
            numbers = pa.array([seconds * factor, None], pa.int64())
            found, faults = _fit(_TIME, numbers.view(pa.timestamp(unit, zone)), is_nullable=True)
            assert (found, faults) == ([moment, None], {})
    _, faults = _fit(_TIME, pa.array([1001], pa.int64()).view(pa.timestamp("ns")))
    assert faults == {0: "a: it has parts of a microsecond"}
    _, faults = _fit(_TIME, pa.array([10**12, -(10**12)], pa.int64()).view(pa.timestamp("s")))
    assert faults == dict.fromkeys((0, 1), "a: it must be of the years 1 to 9999")
    days = pa.array([date(2026, 1, 31)], pa.date64())
    assert _fit(_DATE, days) == ([date(2026, 1, 31)], {})
    assert list(_fit(_DATE, pa.array([10**7], pa.date32()))[1]) == [0]


def test_members_that_are_absent() -> None:
    """A required one is a fault, a default is filled in, others are null, and null rows have no members."""
    nothing = pa.nulls(2)
    assert _fit(_LONG, nothing) == ([None, None], dict.fromkeys((0, 1), "a: it is missing"))
    assert _fit(_LONG, nothing, default=7) == ([7, 7], {})
    assert _fit(_LONG, nothing, is_required=False) == ([None, None], {})
    assert _fit(_LONG, nothing, is_nullable=True, default=7) == ([None, None], {})
    inner = Record((Member("b", _LONG),))
    outer = pa.array([None, {"b": None}, {"b": 1}], pa.struct([("b", pa.int64())]))
    assert _fit(inner, outer, is_nullable=True)[1] == {1: "a.b: it is missing"}


def test_items_are_faults_of_their_record() -> None:
    """The path says that it is an item; the row is that of the record."""
    lists = pa.array([[1], None, [], [1, 300, None]], pa.list_(pa.int64()))
    found, faults = _fit(ListOf(Scalar(pa.int32()), has_nulls=True), lists, is_nullable=True)
    assert (found, faults) == ([[1], None, [], [1, 300, None]], {})
    assert _fit(ListOf(_INT), lists, is_nullable=True)[1] == {3: "a[]: it must not be null"}
    maps = pa.array([[("k", 1)], None, [("k", 2**40), ("l", 1)]], pa.map_(pa.string(), pa.int64()))
    found, faults = _fit(MapOf(_INT), maps, is_nullable=True)
    assert found[:2] == [[("k", 1)], None]
    assert list(faults) == [2]


def test_one_member_of_a_union_is_set() -> None:
    """None, or two, are no value of it."""
    union = Record((Member("int", _INT), Member("string", _TEXT)), is_union=True)
    rows = [{"int": 1}, {"string": "a"}, {"int": 1, "string": "a"}, {}, None]
    values = pa.array(rows, pa.struct([("string", pa.string()), ("int", pa.int32())]))
    found, faults = _fit(union, values, is_nullable=True)
    assert found[:2] == [{"int": 1, "string": None}, {"int": None, "string": "a"}]
    assert list(faults) == [2, 3]


@pytest.mark.parametrize(
    ("shape", "values", "message"),
    [
        (_LONG, pa.array(["1"]), "a must be int64, not string"),
        (_LONG, pa.array([1.0]), "a must be int64, not double"),
        (_TEXT, pa.array([b"1"]), "a must be string, not binary"),
        (_TIME, pa.array([1]), "a must be timestamp"),
        (_LONG, pa.array([True]), "a must be int64, not bool"),
        (ListOf(_LONG), pa.array([1]), "a must be a list, not int64"),
        (MapOf(_LONG), pa.array([[1]]), "a must be a map"),
        (Record((Member("b", _LONG),)), pa.array([{"c": 1}]), "a.c is not a column of the topic"),
        (Record((Member("b", _LONG),)), pa.array([1]), "a must be a struct"),
    ],
)
def test_a_wrong_type_is_wrong_for_all(shape: Shape, values: pa.Array, message: str) -> None:
    """It is named by its path, with what it should be."""
    with pytest.raises(UnfitType) as unfit:
        _fit(shape, values)
    assert str(unfit.value).startswith(message)


def test_absent_members_of_many_records_are_bounded() -> None:
    """Columns that nobody sent take memory all the same: more than a bound is refused before it is taken."""
    wide = Record(tuple(Member(f"m{index}", _LONG, is_required=False) for index in range(4_000)))
    rows = CELLS_MAX // 4_000 + 1
    with pytest.raises(UnfitType, match="send fewer records"):
        fitted(wide, pa.StructArray.from_arrays([pa.nulls(rows)], names=["m0"]))


def test_values_that_fit_nothing_can_be_spelled() -> None:
    """Whatever was sent becomes JSON: times as texts, and null for what is no number."""
    rows = [{"f": float("nan"), "t": 10**18, "d": 10**8, "n": None, "l": [1.5], "m": [("k", {"x": 1})]}, None]
    types = [("f", pa.float64()), ("t", pa.timestamp("s", "Mars/Olympus")), ("d", pa.date32()), ("n", pa.null())]
    nested = [("l", pa.list_(pa.float32())), ("m", pa.map_(pa.string(), pa.struct([("x", pa.int8())])))]
    texts = render(spelled(pa.array(rows, pa.struct([*types, *nested]))))
    assert texts[1].as_py() is None
    assert texts[0].as_py().endswith(b'"l":[1.5],"m":{"k":{"x":1}}}')
