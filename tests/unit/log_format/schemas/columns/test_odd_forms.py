"""Forms of dates, times and numbers in JSON documents: which are taken, for each format of schema, alone and in bulk."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

from log_format.schemas.columns.codec import SchemaReader
from log_format.schemas.schema import Schema, SchemaType

_AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": name, "type": ["null", {"type": base, **more} if more else base], "default": None}
            for name, base, more in (
                ("day", "int", {"logicalType": "date"}),
                ("at", "long", {"logicalType": "timestamp-micros"}),
                ("paid", "bytes", {"logicalType": "decimal", "precision": 10, "scale": 2}),
                ("count", "long", {}),
                ("size", "double", {}),
                ("flag", "boolean", {}),
            )
        ],
    }
)
_JSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "paid": {"type": "string", "format": "decimal", "precision": 10, "scale": 2},
            "count": {"type": "integer"},
            "size": {"type": "number"},
            "flag": {"type": "boolean"},
        },
    }
)
_PROTOBUF = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
    message R { google.protobuf.Timestamp at = 1; int64 count = 2; double size = 3; bool flag = 4; uint64 large = 5; }"""

_TAKEN: Final[dict[str, list[tuple[str, object]]]] = {
    "day": [('"2026-01-31"', date(2026, 1, 31)), ('"0001-01-01"', date(1, 1, 1))],
    "at": [
        ('"2026-01-31T23:59:59.123456Z"', datetime(2026, 1, 31, 23, 59, 59, 123456, UTC)),
        ('"2026-01-31T23:59:59+01:00"', datetime(2026, 1, 31, 22, 59, 59, 0, UTC)),
    ],
    "paid": [("1.25", Decimal("1.25")), ('"-1e1"', Decimal(-10)), ('"0.5"', Decimal("0.50")), ("0", Decimal(0))],
    "count": [("-7", -7)],
    "size": [("1e2", 100.0), ("-0.5", -0.5), ("3", 3.0)],
    "flag": [("true", True)],
    "large": [("7", Decimal(7)), ('"18446744073709551615"', Decimal(2**64 - 1))],
}
_DAYS = ["2026-W01-1", "2026W011", "20260131", "2026-031", "2026-1-31", "+2026-01-31", "２026-01-31", " 2026-01-31"]
_DAYS += ["2026-02-30", "0000-01-01", "2026-01-31T00:00:00Z", "2026-01", ""]
_TIMES = [
    "2026-W01-1T00:00:00Z",
    "2026-01-31",
    "2026-01-31T23",
    "2026-01-31T23Z",
    "2026-01-31T23:59",
    "20260131T235959Z",
]
_TIMES += ["2026-01-31T23:59Z", "2026-01-31T23:59:59+01", "2026-01-31T23:59:59+0100", "2026-01-31T23:59:59,5Z"]
_TIMES += ["2026-01-31T24:00:00Z", "2026-01-31T23:59:60Z", "2026-01-31_23:59:59Z", "2026-01-31T23:59:59.1234567891Z"]
_TIMES += ["2026-01-31T23:59:5９Z", "2026-01-31T23:59:59 Z", "2026-01-31T23:59:59+01:00:30", "1769903999", ""]
_TEXTS = [
    "1_0",
    "1_0e-9",
    "+1",
    ".5",
    "1.",
    "01",
    "-01",
    "1.e1",
    "１",
    "٣",
    " 1",
    "1 ",
    "NaN",
    "Infinity",
    "0x1",
    "1e",
    "",
]
_RAW = ["1_0", "+1", ".5", "1.", "01", "-01", "１", "0x1", "1e"]
_REFUSED: Final[dict[str, list[str]]] = {
    "day": [*map(json.dumps, _DAYS), "20260131", "1", "true", '{"x":1}'],
    "at": [*map(json.dumps, _TIMES), "1769903999", "1.5", "false"],
    "paid": [
        *map(json.dumps, _TEXTS),
        r'"\u002b1"',
        r'"\u0030\u0031"',
        *_RAW,
        "NaN",
        "-Infinity",
        "true",
        "1e9",
        "0.001",
    ],
    "count": [*_RAW, "1.0", "1e2", "true", '"1_0"', '"+1"', '"１"', '"1.5"', "NaN", "9223372036854775808"],
    "size": [*_RAW, "NaN", "Infinity", "-Infinity", "true", '"1_0"', '"+1"', '"１"', '"infinity"', "1e400"],
    "flag": ["0", "1", '"true"', '"True"', "True", "1.0"],
    "large": ["-1", "18446744073709551616", '"+1"', '"1_0"', '"１"', '"1e2"', "true"],
}

READERS: Final = {
    "Avro": SchemaReader(Schema(type=SchemaType.AVRO, text=_AVRO)),
    "JSON": SchemaReader(Schema(type=SchemaType.JSON, text=_JSON)),
    "Protobuf": SchemaReader(Schema(type=SchemaType.PROTOBUF, text=_PROTOBUF)),
}
_CASES: Final = [
    pytest.param(reader, name, id=f"{kind}-{name}")
    for kind, reader in READERS.items()
    for name in _TAKEN
    if name in reader.type.names
]


def _judged(reader: SchemaReader, text: str, count: int) -> list[tuple[Any, str | None]]:
    texts = [text.encode()] * count
    column, faults = reader.documents(pa.array(texts, pa.binary()))
    return [(value, faults[row].path if row in faults else None) for row, value in enumerate(column.to_pylist())]


@pytest.mark.parametrize(("reader", "name"), _CASES)
@pytest.mark.parametrize("count", [1, 20])
def test_plain_forms_are_taken(reader: SchemaReader, name: str, count: int) -> None:
    """Each has the value that it says; 20 documents of one form are parsed in bulk."""
    for text, wanted in _TAKEN[name]:
        for value, path in _judged(reader, f'{{"{name}":{text}}}', count):
            assert (value[name], path) == (wanted, None), text


@pytest.mark.parametrize(("reader", "name"), _CASES)
@pytest.mark.parametrize("count", [1, 20])
def test_odd_forms_are_refused(reader: SchemaReader, name: str, count: int) -> None:
    """By the member's name, unless the text is no JSON: what a parser of Python's or Arrow's takes beyond the schema's form."""
    for text in _REFUSED[name]:
        document = f'{{"{name}":{text}}}'
        for value, path in _judged(reader, document, count):
            assert value is None, (text, value)
            assert path in (name, ""), (text, path)
            assert path == name or not _is_json(text), text


@pytest.mark.parametrize("reader", [READERS["Avro"], READERS["JSON"]])
def test_forms_beside_plain_ones_are_refused_alone(reader: SchemaReader) -> None:
    """An odd form in a bulk refuses its own document only; a time without zone is UTC beside others with one."""
    moments = ["2026-01-31T23:59:59Z", "2026-01-31T23:59:59", "2026-02-01t00:59:59+01:00", "2026-01-31 23:59:59"]
    for odd in ("2026-01-31T23:59", "2026-01-31T23:59:59Z"):
        texts = [json.dumps({"at": text, "paid": "1.5"}).encode() for text in [odd, *moments] * 5]
        column, faults = reader.documents(pa.array(texts, pa.binary()))
        is_odd = odd not in moments
        assert set(faults) == (set(range(0, 25, 5)) if is_odd else set())
        wanted = datetime(2026, 1, 31, 23, 59, 59, 0, UTC)
        found = [None if one is None else one["at"] for one in column.to_pylist()]
        assert found == [None if is_odd else wanted, *[wanted] * 4] * 5


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=lambda _: int("no"))
    except ValueError:
        return False
    return True
