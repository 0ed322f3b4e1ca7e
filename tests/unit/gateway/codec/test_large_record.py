"""A record of megabytes is written as any other, in pieces of bounded length."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from gateway.codec import json_answer, record_json
from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.event_stream import EventWriter
from gateway.codec.json_answer import Positions, json_pieces, ndjson_pieces
from gateway.codec.large_record import object_pieces
from gateway.codec.record_json import record_objects
from log_format.records.schema import RECORD_SCHEMA

MEBIBYTE = 1024 * 1024
PLACE = {"partition": 3, "offset": 41, "timestamp": 1_763_683_200_000_000}
LARGE: list[bytes | None] = [
    None,
    b"",
    b"\x01" * MEBIBYTE,
    ("é€\U0001f600" * 120_000).encode(),
    b'"\\\n' * 300_000,
    b"x" * MEBIBYTE + b"\xff",
]
HEADERS: list[Any] = [
    None,
    [],
    [{"key": "k", "value": None}] * 50_000,
    [{"key": "é" * 200_000, "value": b"\xfe" * MEBIBYTE}],
]


def table(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([PLACE | row for row in rows], schema=RECORD_SCHEMA)


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("value", LARGE)
def test_pieces_are_the_record(value: bytes | None, headers: Any) -> None:
    """Byte for byte what is made of it at once, and no piece longer than a few hundred kilobytes."""
    record = table({"key": value, "value": value, "headers": headers})
    pieces = list(object_pieces(record))
    assert b"".join(pieces) == record_objects(record)[0].as_buffer().to_pybytes()
    assert max(map(len, pieces)) <= MEBIBYTE


def test_answers_with_large_records_are_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among small records, in every form of an answer, large ones stand as they would without pieces; no piece is long."""
    small = {"key": b"k", "value": b"v", "headers": None}
    large = {"key": None, "value": b"\x02" * 2 * MEBIBYTE, "headers": [{"key": "a", "value": b"b"}]}
    records = table(small, large, small, small, large, large, small)
    positions = Positions(next_offset=42, high_watermark=42, log_start_offset=0)
    forms: tuple[Callable[[], Iterable[bytes | memoryview]], ...] = (
        lambda: json_pieces("t", 3, records, positions, topic_id="id"),
        lambda: ndjson_pieces(records),
        lambda: EventWriter().records(records),
    )
    in_pieces = [list(form()) for form in forms]
    assert max(len(piece) for pieces in in_pieces for piece in pieces) <= MEBIBYTE
    assert len(json.loads(b"".join(in_pieces[0]))["records"]) == 7
    for module in (record_json, json_answer):
        monkeypatch.setattr(module, "is_large", lambda _piece: False)
    monkeypatch.setattr("gateway.codec.event_stream.is_large", lambda _piece: False)
    assert [b"".join(pieces) for pieces in in_pieces] == [b"".join(form()) for form in forms]


def test_arrow_answers_come_in_pieces() -> None:
    """No more than a record, or a mebibyte of them, at a time."""
    records = table(*[{"key": None, "value": b"x" * 300_000, "headers": None}] * 20)
    pieces = list(arrow_pieces(records))
    assert max(map(len, pieces)) <= 2 * MEBIBYTE
    assert pa.ipc.open_stream(b"".join(pieces)).read_all().column("value").equals(records.column("value"))
