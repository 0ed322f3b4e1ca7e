"""Iceberg's own library understands the schemas and bounds that are made of any typed topic."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import parse_mapping_from_json

from log_format.delta.actions import Add
from log_format.errors import CorruptData
from log_format.iceberg.data_file import manifest_entry
from log_format.iceberg.schema import are_kept, table_schema
from log_format.records.typed_columns import TypedColumns
from log_format.segments.column_statistics import collect_statistics

_LEAVES = st.sampled_from(
    [
        *(pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary(), pa.date32()),
        *(pa.timestamp("us", tz="UTC"), pa.decimal128(10, 2), pa.decimal128(38, 0)),
    ]
)
_NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=6)


def _structs(of: Any) -> Any:
    return st.dictionaries(_NAMES, of, min_size=1, max_size=4).map(lambda named: pa.struct(list(named.items())))


_TYPES = st.recursive(
    _LEAVES,
    lambda of: st.one_of(
        _structs(of),
        of.map(lambda one: pa.list_(pa.field("element", one))),
        of.map(lambda one: pa.map_(pa.string(), one)),
    ),
    max_leaves=12,
)


@given(_structs(_TYPES), st.none() | _structs(_TYPES))
def test_schemas_are_read_as_they_are(data: pa.DataType, key_data: pa.DataType | None) -> None:
    """Each field has an id of its own, the same in the name mapping, and the types are those of the files."""
    schema = table_schema(TypedColumns(data, key_data))
    assert len(set(schema.ids.values())) == len(schema.ids)
    read = Schema.model_validate_json(msgspec.json.encode(schema.document()))
    arrow = schema_to_pyarrow(read, include_field_ids=False)
    assert arrow.field("data").type.equals(_as_iceberg_has_it(data))
    assert read.highest_field_id == schema.last_column_id
    mapping = parse_mapping_from_json(schema.name_mapping())
    assert {field.names[0] for field in mapping} == {field.name for field in read.fields}
    assert {field.field_id for field in mapping} == {field.field_id for field in read.fields}


def _as_iceberg_has_it(arrow: pa.DataType) -> pa.DataType:
    read = Schema.model_validate_json(msgspec.json.encode(table_schema(TypedColumns(arrow)).document()))
    return schema_to_pyarrow(read, include_field_ids=False).field("data").type


@given(st.dictionaries(_NAMES, _TYPES, min_size=2, max_size=5))
def test_members_that_come_change_no_id(members: dict[str, pa.DataType]) -> None:
    """Unless two paths have one hash, which ``are_kept`` tells."""
    fields = list(members.items())
    before = table_schema(TypedColumns(pa.struct(fields[:-1]))).ids
    after = table_schema(TypedColumns(pa.struct(fields))).ids
    assert are_kept(before, after)
    moved = {**after, next(iter(before)): 7_777}
    assert not are_kept(before, moved)


_MOMENTS = st.integers(-600_000_000_000_000, 4_000_000_000_000_000).map(
    lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
)
_VALUES = st.fixed_dictionaries(
    {
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "text": st.text(max_size=40),
        "day": st.dates(date(1950, 1, 1), date(2100, 1, 1)),
        "moment": _MOMENTS,
        "price": st.decimals(Decimal("-99999999.99"), Decimal("99999999.99"), places=2),
    }
)
_MEMBERS = pa.struct(
    [
        *(("int", pa.int32()), ("long", pa.int64()), ("float", pa.float32()), ("double", pa.float64())),
        *(("text", pa.string()), ("day", pa.date32()), ("moment", pa.timestamp("us", tz="UTC"))),
        ("price", pa.decimal128(10, 2)),
    ]
)


@given(st.lists(_VALUES, min_size=1, max_size=5))
def test_no_value_is_outside_its_bounds(rows: list[dict[str, Any]]) -> None:
    """Bounds from Delta's statistics, as Iceberg's library reads them; numbers, days and decimals exactly."""
    values = pa.array([b"v"] * len(rows), pa.binary())
    records = pa.table(
        {"value": values, "data": pa.array(rows, _MEMBERS), "data_error": pa.nulls(len(rows), pa.string())}
    )
    low, high, nulls = collect_statistics(records).nested()
    stats = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    text = _encoded(stats)
    schema = table_schema(TypedColumns(_MEMBERS))
    add = Add(path="segments/a.parquet", size=1, modification_time=0, data_change=True, stats=text)
    entry = manifest_entry(add, "file:///t/", schema, 3)["data_file"]
    read = Schema.model_validate_json(msgspec.json.encode(schema.document()))
    bounds = {name: {one["key"]: one["value"] for one in entry[f"{name}_bounds"]} for name in ("lower", "upper")}
    for member in _MEMBERS:
        number = schema.ids["data", member.name]
        kind: Any = read.find_type(number)
        least, largest = from_bytes(kind, bounds["lower"][number]), from_bytes(kind, bounds["upper"][number])
        column = pc.struct_field(records["data"], member.name)
        found = [_as_read(value) for value in column.to_pylist()]
        assert all(least <= value <= largest for value in found), member.name
        if member.name in ("int", "long", "float", "double", "day", "price"):
            assert (least, largest) == (min(found), max(found)), member.name


def _encoded(stats: Any) -> str:
    return msgspec.json.Encoder(decimal_format="number").encode(stats).decode()


def _as_read(value: Any) -> Any:
    """A value as PyIceberg gives it: days and microseconds since the epoch."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


@pytest.mark.parametrize(
    "stats",
    [
        *(None, "", "{", "[]", "{}", '{"numRecords": -1}', '{"numRecords": "1"}'),
        *('{"numRecords":1,"minValues":{"offset":"x"}}', '{"numRecords":1,"minValues":{"partition":99999999999}}'),
        '{"numRecords":1,"maxValues":{"timestamp":"never"}}',
    ],
)
def test_statistics_that_can_t_be_read_are_damage(stats: str | None) -> None:
    """A manifest without the number of records, or with wrong bounds, would hide records."""
    add = Add(path="segments/a.parquet", size=1, modification_time=0, data_change=True, stats=stats)
    with pytest.raises(CorruptData):
        manifest_entry(add, "file:///t/", table_schema(TypedColumns()), 3)
