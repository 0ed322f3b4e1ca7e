"""Conditions on typed columns: statistics never rule out a file with a record that is meant, and a text keeps its meaning."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from log_format.records.condition import parse_condition
from log_format.records.condition_syntax import DEPTH_MAX, ConditionError
from log_format.records.erasing import hide_condition, reveal_condition
from log_format.records.typed_columns import TypedColumns
from log_format.segments.column_statistics import collect_statistics

TYPES: Final = {
    "n": pa.int32(),
    "f": pa.float32(),
    "d": pa.decimal128(38, 2),
    "t": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "b": pa.bool_(),
}
DATA_TYPE: Final = pa.struct([*(pa.field(name, kind) for name, kind in TYPES.items())])
VALUES: Final[dict[str, list[Any]]] = {
    "n": [-3, 0, 1, 7, 2**31 - 1],
    "f": [-1.5, 0.0, 0.25, 1e30, float("nan"), float("inf")],
    "d": [Decimal("-1.10"), Decimal("0.00"), Decimal("123456789012345678901234567890.12")],
    "t": ["", "a", "a" * 32, "a" * 33, "a" * 32 + "\U0010ffff\U0010ffff", "it's", "ä"],
    "day": [date(2026, 1, 1), date(9999, 12, 31)],
    "at": [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 999, UTC), datetime.max.replace(tzinfo=UTC)],
    "b": [True, False],
}
ROWS: Final = st.lists(
    st.none() | st.fixed_dictionaries({name: st.none() | st.sampled_from(some) for name, some in VALUES.items()}),
    min_size=1,
    max_size=6,
)


def spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    text = value if isinstance(value, str) else value.isoformat()
    return "'" + text.replace("'", "''") + "'"


@st.composite
def members_tested(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(VALUES)))
    literals = [spelled(one) for one in VALUES[name] if str(one) not in ("nan", "inf")]
    one = st.sampled_from(literals)
    signs = ["=", "<>"] if name == "b" else ["=", "<>", "<", "<=", ">", ">="]
    match draw(st.integers(0, 3)):
        case 0:
            return f"data.{name} is {draw(st.sampled_from(['', 'not ']))}null"
        case 1:
            return f"data.{name} {draw(st.sampled_from(['', 'not ']))}in ({draw(one)}, {draw(one)})"
        case _:
            return f"data.{name} {draw(st.sampled_from(signs))} {draw(one)}"


CONDITIONS: Final = st.recursive(
    members_tested(),
    lambda some: (
        some.map("not ({})".format)
        | st.tuples(some, st.sampled_from(["and", "or"]), some).map("({0[0]}) {0[1]} ({0[2]})".format)
    ),
    max_leaves=4,
)


LONGEST: Final = "a" * 32 + "\U0010ffff\U0010ffff"
"""Text that is larger than what statistics say of it, which is cut."""


@given(rows=ROWS, text=CONDITIONS)
@example(rows=[{"t": LONGEST}], text=f"data.t = '{LONGEST}'")
@example(rows=[{"t": LONGEST}], text=f"not data.t < '{LONGEST}'")
@example(rows=[{"at": VALUES["at"][1]}], text="data.at > '2026-01-01T00:00:00.000001Z'")
def test_statistics_never_rule_out_a_record_that_is_meant(rows: list[dict[str, Any] | None], text: str) -> None:
    """Also with cut texts, rounded times, NaN, exact decimals, nulls, and under ``not``; the canonical text means the same."""
    typed = {"data": pa.array(rows, DATA_TYPE), "data_error": pa.nulls(len(rows), pa.string())}
    records = pa.table({"value": pa.nulls(len(rows), pa.binary()), **typed})
    low, high, nulls = collect_statistics(records).nested()
    stats = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    encoded = msgspec.json.Encoder(decimal_format="number").encode(stats).decode()
    condition, columns = parse_condition(text), TypedColumns(data=DATA_TYPE)
    condition.check(columns)
    mask = condition.mask(records)
    assert condition.may_match(encoded, columns) or not mask.any(), encoded
    assert condition.may_match(None, columns)
    again = parse_condition(condition.text)
    assert again.text == condition.text
    assert again.mask(records).tolist() == mask.tolist()


@given(rows=ROWS, text=CONDITIONS)
def test_a_condition_and_its_opposite_never_both_hold(rows: list[dict[str, Any] | None], text: str) -> None:
    """Where it is null neither holds; a table without the columns has only nulls."""
    records = pa.table({"data": pa.array(rows, DATA_TYPE)})
    holds, fails = parse_condition(text).mask(records), parse_condition(f"not ({text})").mask(records)
    assert not (holds & fails).any()
    bare = pa.table({"data": pa.nulls(len(rows), DATA_TYPE)})
    without = pa.table({"value": pa.nulls(len(rows), pa.binary())})
    assert parse_condition(text).mask(bare).tolist() == parse_condition(text).mask(without).tolist()


@pytest.mark.parametrize(
    "text",
    [
        "data.n=1",
        "not " * DEPTH_MAX + "data.n=1",
        "(" * DEPTH_MAX + "data.n=1" + ")" * DEPTH_MAX,
        "not (" * (DEPTH_MAX // 2) + "data.n=1 or data.f=2" + ")" * (DEPTH_MAX // 2),
        "(data.n=1 and data.f=2 or " * DEPTH_MAX + "data.n=1" + ")" * DEPTH_MAX,
        "data.n=1 or data.n=1 and not (" * (DEPTH_MAX // 2)
        + "data.n=1 or data.n=1 and data.n=1"
        + ")" * (DEPTH_MAX // 2),
        "data.n=1or " * 350 + "data.n=1",
        f"data.n in({'1,' * 2_000}1)",
        f"data.t='{'x' * 4_000}'",
        "data.n=1 and data.n=2 or " * 160 + "data.n=1",
    ],
    ids=lambda text: text[:12],
)
def test_each_condition_that_is_taken_is_carried_out(text: str) -> None:
    """As it was asked for: what is stored of it is longer and deeper, and maintenance stopped at the topic for ever."""
    condition = parse_condition(text)
    assert reveal_condition(b"secret", hide_condition(b"secret", condition)) == condition


@given(text=CONDITIONS)
def test_what_is_stored_is_the_condition(text: str) -> None:
    """Whatever it is made of."""
    condition = parse_condition(text)
    assert reveal_condition(b"secret", hide_condition(b"secret", condition)).text == condition.text


@pytest.mark.parametrize("exponent", ["-999999999", "999999999", "-99999999999", "5000"])
@pytest.mark.parametrize("digits", ["1", "0"])
def test_a_decimal_of_any_exponent_is_refused(digits: str, exponent: str) -> None:
    """Arrow writes each digit of it, and ended the process that asked: every gateway and maintenance, in turn."""
    with pytest.raises(ConditionError, match="compares"):
        parse_condition(f"data.d = {digits}e{exponent}").check(TypedColumns(data=DATA_TYPE))
