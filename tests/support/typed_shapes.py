"""Shapes of typed values, and documents of them, for property tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.shape import ABSENT, ListOf, MapOf, Member, Record, Scalar, Shape

_LEAVES = [
    *(pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32(), TIMESTAMP),
    *(pa.decimal128(10, 2), pa.decimal128(38, 0)),
]


@st.composite
def shapes(draw: st.DrawFn, depth: int = 0) -> Shape:
    """Draw a shape."""
    kind = (
        draw(st.sampled_from(["leaf", "leaf", "leaf", "symbols", "record", "list", "map", "union"]))
        if depth < 3
        else "leaf"
    )
    match kind:
        case "symbols":
            return Scalar(pa.string(), ("A", "B"))
        case "record":
            return draw(records(depth + 1))
        case "list":
            return ListOf(draw(shapes(depth + 1)), draw(st.booleans()))
        case "map":
            return MapOf(draw(shapes(depth + 1)), draw(st.booleans()))
        case "union":
            return Record(
                (_optional("int", Scalar(pa.int32())), _optional("string", Scalar(pa.string()))), is_union=True
            )
    return Scalar(draw(st.sampled_from(_LEAVES)))


def _optional(name: str, shape: Shape) -> Member:
    return Member(name, shape, is_required=False, is_nullable=True)


@st.composite
def records(draw: st.DrawFn, depth: int = 0) -> Record:
    """Draw the shape of an object."""
    members = []
    for index in range(draw(st.integers(1, 4))):
        shape = draw(shapes(depth))
        is_required, is_nullable = draw(st.booleans()), draw(st.booleans())
        default: object = ABSENT
        if isinstance(shape, Scalar) and shape.type == pa.int32() and not is_required:
            default = draw(st.sampled_from([ABSENT, 7]))
        members.append(Member(f"m{index}", shape, is_required, is_nullable, default))
    return Record(tuple(members), is_open=draw(st.booleans()))


ODD_TEXTS = (
    *("2024-W01-1", "20240101", "2024-001", "2024-01-01T23", "2024-01-01T23:59", "2024-01-01T23:59:59+01"),
    *("2024-01-01T23:59:59", "2024-01-01T23:59:59,5Z", "2024-01-01t23:59:59z", "2024-01-01T24:00:00Z"),
    *("2024-01-01T23:59:59+0100", "2024-01-01_23:59:59Z", "2024-01-01 23:59:59-01:00", "\uff12024-01-01"),
    *("1_0", "+1", ".5", "1.", "01", "1.e1", "-", "-0", "-01", " 1", "1e1", "\uff11", "NaN", "Infinity", "true", ""),
)
"""Texts that some parser takes for a date, a timestamp or a decimal."""
_WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["A", "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123456789Z", "1.25", "YQ=="])
    | st.sampled_from(ODD_TEXTS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["m0", "m1", "x", "null"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def values(draw: st.DrawFn, shape: Shape) -> Any:
    """Draw a value that is of the shape, mostly."""
    if draw(st.integers(0, 19)) == 0:
        return draw(_WILD)
    if isinstance(shape, Record):
        if shape.is_union:
            return draw(st.integers(-5, 5) | st.text(max_size=3))
        found = {}
        for member in shape.members:
            if member.is_required or draw(st.booleans()):
                is_null = member.is_nullable and draw(st.booleans())
                found[member.name] = None if is_null else draw(values(member.shape))
        if shape.is_open and draw(st.booleans()):
            found["further"] = draw(_WILD)
        return found
    if isinstance(shape, ListOf):
        return draw(st.lists(st.none() | values(shape.item) if shape.has_nulls else values(shape.item), max_size=3))
    if isinstance(shape, MapOf):
        return draw(st.dictionaries(st.text(max_size=2), values(shape.value), max_size=2))
    if shape.symbols:
        return draw(st.sampled_from(shape.symbols))
    arrow = shape.type
    if pa.types.is_boolean(arrow):
        return draw(st.booleans())
    if pa.types.is_integer(arrow):
        return draw(st.integers(-(2**31), 2**31 - 1))
    if pa.types.is_floating(arrow):
        return draw(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.integers(-1000, 1000))
    if pa.types.is_decimal(arrow):
        return draw(st.integers(-1000, 1000) | st.sampled_from(["1", "-2", "12345678"]))
    if pa.types.is_date(arrow):
        return draw(st.dates()).isoformat()
    if pa.types.is_timestamp(arrow):
        return draw(st.datetimes()).isoformat() + draw(st.sampled_from(["", "Z", "+02:00"]))
    return draw(st.sampled_from(["", "YQ==", "YWI="])) if pa.types.is_binary(arrow) else draw(st.text(max_size=5))
