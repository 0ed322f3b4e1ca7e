"""Avro's decimals of more digits than a column takes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from log_format.schemas.columns.avro_compound import column_of
from log_format.schemas.columns.avro_schema import avro_reader
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.shape import Untypable


def _schema(**more: Any) -> str:
    field = {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", **more}}
    return json.dumps({"type": "record", "name": "Order", "fields": [field]})


def _value(number: int) -> bytes:
    """Of Avro, behind a serializer's header: a length below 64 and the number, big-endian."""
    raw = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return b"\0\0\0\0\1" + bytes([2 * len(raw)]) + raw


def test_a_value_that_fits_is_taken_whatever_its_schema_allows() -> None:
    """Connect's converter writes 64 digits where a source says none. 38 digits come back, 39 are refused, by name."""
    reader = avro_reader(_schema(precision=64, scale=2))
    largest = 10**38 - 1
    numbers = [1250, -largest, largest, largest + 1, -largest - 1, 10**60]
    column, faults = column_of(reader, pa.array(map(_value, numbers), pa.binary()), 5)
    assert column.type == pa.struct({"paid": pa.decimal128(38, 2)})
    taken = [row["paid"] for row in column.to_pylist()[:3]]
    assert taken == [Decimal("12.50"), Decimal(f"-{'9' * 36}.99"), Decimal(f"{'9' * 36}.99")]
    assert {row: (fault.path, fault.what) for row, fault in faults.items()} == dict.fromkeys(
        (3, 4, 5), ("paid", "it must be a decimal of at most 38 digits")
    )


def test_a_document_is_judged_alike() -> None:
    """36 digits before the point, of which there are two behind it."""
    documents = Documents(avro_reader(_schema(precision=64, scale=2)).shape)
    texts = [json.dumps({"paid": "9" * digits + ".99"}).encode() for digits in (36, 37)]
    column, faults = documents.column_of(pa.array(texts, pa.binary()))
    assert column[0].as_py() == {"paid": Decimal(f"{'9' * 36}.99")}
    assert faults.keys() == {1}


def test_more_digits_behind_the_point_than_a_column_takes_are_no_column() -> None:
    """By name: no value but zero would fit."""
    assert avro_reader(_schema(precision=64, scale=38)).type == pa.struct({"paid": pa.decimal128(38, 38)})
    with pytest.raises(Untypable, match="paid is a decimal with 39 digits behind the point; a column takes 38"):
        avro_reader(_schema(precision=64, scale=39))
