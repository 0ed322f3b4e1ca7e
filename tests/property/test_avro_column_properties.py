"""Avro: what fastavro writes is read as the same values, all at once and one by one; damaged bytes are named, never misread."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.schemas.columns.avro import Reader, Undecodable
from log_format.schemas.columns.avro_compound import column_of
from log_format.schemas.columns.avro_schema import avro_reader

_UTC = datetime.UTC
_int = st.integers(-(2**31), 2**31 - 1)
_long = st.integers(-(2**63), 2**63 - 1)
_text = st.text(st.characters(codec="utf-8"), max_size=20)
_day = st.dates()
_time = st.datetimes(timezones=st.just(_UTC))
_name = st.integers(0, 5)

_LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("int", _int),
    ("long", _long),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("boolean", st.booleans()),
    ("string", _text),
    ("bytes", st.binary(max_size=20)),
    ({"type": "int", "logicalType": "date"}, _day),
    ({"type": "long", "logicalType": "timestamp-micros"}, _time),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        _time.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4},
        st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Context(prec=50).scaleb(Decimal(n), -4)),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
        st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2},
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Context(prec=50).scaleb(Decimal(n), -2)),
    ),
]


@st.composite
def _types(draw: st.DrawFn, names: list[int], depth: int = 0) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw a type and its values, as Python objects that equal what Arrow gives back."""
    kind = draw(
        st.sampled_from(
            ["leaf", "leaf", "leaf", "record", "array", "map", "optional", "enum", "fixed"] if depth < 3 else ["leaf"]
        )
    )
    names[0] += 1
    name = f"T{names[0]}"
    match kind:
        case "record":
            parts = [draw(_types(names, depth + 1)) for _ in range(draw(st.integers(1, 4)))]
            fields = [{"name": f"f{index}", "type": part[0]} for index, part in enumerate(parts)]
            return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(
                {f"f{index}": part[1] for index, part in enumerate(parts)}
            )
        case "array":
            part = draw(_types(names, depth + 1))
            return {"type": "array", "items": part[0]}, st.lists(part[1], max_size=4)
        case "map":
            part = draw(_types(names, depth + 1))
            return {"type": "map", "values": part[0]}, st.dictionaries(_text, part[1], max_size=3)
        case "optional":
            part = draw(_types(names, depth + 1))
            if isinstance(part[0], list):
                return part
            union = ["null", part[0]] if draw(st.booleans()) else [part[0], "null"]
            return union, st.none() | part[1]
        case "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
        case "fixed":
            return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)
    leaf: tuple[Any, st.SearchStrategy[Any]] = draw(st.sampled_from(_LEAVES))
    return leaf


@st.composite
def _records(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    """Draw a record's schema, and values."""
    names = [0]
    parts = [draw(_types(names)) for _ in range(draw(st.integers(1, 5)))]
    fields = [{"name": f"f{index}", "type": part[0]} for index, part in enumerate(parts)]
    values = st.fixed_dictionaries({f"f{index}": part[1] for index, part in enumerate(parts)})
    return {"type": "record", "name": "Top", "fields": fields}, draw(st.lists(values, min_size=1, max_size=8))


def _written(schema: dict[str, Any], values: list[Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    found = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        found.append(stream.getvalue())
    return found


def _plain(value: Any) -> Any:
    """Return a value of Arrow as fastavro has it: a map as a dict."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(part, tuple) for part in value):
            return {name: _plain(part) for name, part in value}
        return [_plain(part) for part in value]
    return value


def _alike(one: Any, other: Any) -> bool:
    """Return whether two values are equal; an empty map is an empty list in Arrow."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return (one == other) or (not one and not other and isinstance(one, dict | list) and isinstance(other, dict | list))


_COPIES = st.sampled_from([1, 64])
"""How often the same values come: with many, items of arrays and maps are read in steps over all of them."""


@given(_records(), _COPIES)
def test_values_come_back(drawn: tuple[dict[str, Any], list[Any]], copies: int) -> None:
    """The column has the values that were written, and one value alone is read alike."""
    schema, values = drawn
    reader = avro_reader(json.dumps(schema))
    written = _written(schema, values)
    column, faults = column_of(reader, pa.array([b"\0\0\0\0\1" + one for one in written * copies], pa.binary())[0:], 5)
    assert not faults
    column.validate(full=True)
    assert column.type == reader.type
    assert len(column) == len(values) * copies
    for some in (column[: len(values)], column[-len(values) :]):
        assert all(map(_alike, _plain(some.to_pylist()), values))
    for raw, value in zip(written, values, strict=True):
        one, behind = reader.one(raw, 0, "")
        assert behind == len(raw)
        assert _alike(_plain(pa.array([one], reader.type).to_pylist())[0], value)


@st.composite
def _damaged(draw: st.DrawFn, raw: bytes) -> bytes:
    """Draw the bytes intact, cut, longer, changed, or others."""
    match draw(st.sampled_from(["intact", "cut", "longer", "changed", "random"])):
        case "cut":
            return raw[: draw(st.integers(0, max(0, len(raw) - 1)))]
        case "longer":
            return raw + draw(st.binary(min_size=1, max_size=5))
        case "changed" if raw:
            at = draw(st.integers(0, len(raw) - 1))
            return raw[:at] + draw(st.binary(min_size=1, max_size=1)) + raw[at + 1 :]
        case "random":
            return draw(st.binary(max_size=30))
    return raw


def _alone(reader: Reader, raw: bytes) -> list[Any] | None:
    """The value as it is read alone, in a list; None if it is refused."""
    try:
        value, behind = reader.one(raw, 0, "")
    except Undecodable:
        return None
    return [value] if behind == len(raw) else None


@settings(max_examples=300)
@given(_records(), st.data())
def test_damage_is_named_and_does_not_spread(drawn: tuple[dict[str, Any], list[Any]], data: st.DataObject) -> None:
    """Of damaged bytes each value is read as it is read alone, or named; intact values beside them come back."""
    schema, values = drawn
    reader = avro_reader(json.dumps(schema))
    written = _written(schema, values)
    damaged = [data.draw(_damaged(raw)) for raw in written]
    intact = written * (data.draw(_COPIES) - 1)
    column, faults = column_of(reader, pa.array([*intact, *damaged, *intact], pa.binary()))
    assert all(len(intact) <= row < len(intact) + len(damaged) for row in faults)
    for row, raw in enumerate(damaged, len(intact)):
        alone = _alone(reader, raw)
        assert (alone is None) == (row in faults), (raw, faults.get(row))
        if alone is not None:
            assert repr(column[row].as_py()) == repr(pa.array(alone, reader.type)[0].as_py())
