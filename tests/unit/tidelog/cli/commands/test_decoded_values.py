"""``consume`` and ``tail`` show values of Confluent's serializers as JSON, by the registry; what can't be decoded as it is."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro

from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Record
from tidelog.cli.sinks.decoded import UNKNOWN_MAX

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "raw", "type": "bytes"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NOTE = "Keys and values that name a schema are shown as JSON, by the schema registry; --raw shows their bytes."
SHOWN = '{"id":7,"raw":"/w==","amount":"3.50","at":"2026-01-31T00:00:00Z"}'


def framed(schema_id: int, body: bytes) -> bytes:
    """A value with Confluent's header."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


def order() -> bytes:
    """An Avro value of the schema with id 1."""
    out = io.BytesIO()
    members = {"id": 7, "raw": b"\xff", "amount": Decimal("3.50"), "at": datetime(2026, 1, 31, tzinfo=UTC)}
    fastavro.schemaless_writer(out, AVRO, members)
    return framed(1, out.getvalue())


def fill(gateway: FakeGateway, *records: tuple[bytes | None, bytes | None]) -> None:
    """A topic with these keys and values; the registry answers for schema 1 (Avro) and 2 (JSON), once."""
    topic = gateway.create("t")
    topic.records[0] = [Record("t", 0, at, 1_769_000_000_000, key, value) for at, (key, value) in enumerate(records)]
    gateway.will_answer("GET /registry/schemas/ids/1$", {"schema": json.dumps(AVRO)})
    gateway.will_answer("GET /registry/schemas/ids/2$", {"schema": "{}", "schemaType": "JSON"})


def test_values_are_shown_as_json_and_a_line_says_so(gateway: FakeGateway, run: Run) -> None:
    """Of Avro and of JSON, keys and values; others are as they are; each schema is asked for once, and one line tells it."""
    fill(
        gateway,
        (b"k", order()),
        (framed(2, b'{"u":1}'), framed(2, b'{"a": 1}')),
        (None, order()),
        (None, b"plain"),
        (b"x", None),
    )
    shown = run("consume", "t", "-k", " ")
    assert shown.stdout.splitlines() == [f"k {SHOWN}", '{"u":1} {"a":1}', f" {SHOWN}", " plain", "x "]
    assert shown.stderr.count(NOTE) == 1
    assert gateway.count("/registry") == 2


def test_templates_and_tail_decode_too(gateway: FakeGateway, run: Run) -> None:
    """They are for people, as text."""
    fill(gateway, (b"k", order()))
    assert run("consume", "t", "-f", "%o %v\\n").stdout == f"0 {SHOWN}\n"
    fill(gateway, (b"k", order()))
    shown = run("tail", "t", "--max", "1")
    assert shown.stdout.endswith(f"  k  {SHOWN}\n")
    assert NOTE in shown.stderr


def test_bytes_are_shown_where_they_are_asked_for(gateway: FakeGateway, run: Run) -> None:
    """By --raw, and for programs, whose JSON can be produced again; nobody is asked and nothing is told then."""
    fill(gateway, (b"k", order()))
    for arguments in (("consume", "t", "--raw"), ("tail", "t", "--raw", "--max", "1")):
        shown = run(*arguments)
        assert "\\x00\\x00\\x00\\x00\\x01" in shown.stdout
        assert "schema" not in shown.stderr
    record: dict[str, Any] = json.loads(run("consume", "t", "--json").stdout.splitlines()[0])
    assert SHOWN not in json.dumps(record)
    assert run("consume", "t", "-f", "raw").stdout_bytes == order() + b"\n"
    assert gateway.count("/registry") == 0


def test_what_cannot_be_decoded_is_shown_as_it_is_with_the_reason(gateway: FakeGateway, run: Run) -> None:
    """Unknown ids, and damaged values: a line each, once for a schema, and the command goes on."""
    fill(
        gateway,
        (b"k", framed(3, b"x")),
        (b"k", framed(4, b"y")),
        (b"k", order()[:6]),
        (b"k", order()[:6]),
        (b"k", order()),
    )
    gateway.will_answer("GET /registry/schemas/ids/3", {"error_code": 40403, "message": "Schema 3 not found."}, 404)
    gateway.will_answer("GET /registry/schemas/ids/4", {"schema": "message M {}", "schemaType": "PROTOBUF"})
    shown = run("consume", "t")
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "\\x00\\x00\\x00\\x00\\x03x"
    assert (lines[1][-1], lines[2], lines[4]) == ("y", lines[3], SHOWN)
    assert "t/0@0 is shown as it is: Schema 3 not found." in shown.stderr
    assert "t/0@1 is shown as it is: the value is not of its schema 4" in shown.stderr
    assert "t/0@2 is shown as it is: the value is not of its schema 1" in shown.stderr
    assert "t/0@3" not in shown.stderr


def test_binary_values_are_not_asked_about_for_ever(gateway: FakeGateway, run: Run) -> None:
    """Each begins with a zero byte and names another id: after some the registry is left alone."""
    fill(gateway, *((None, framed(100 + number, b"x")) for number in range(3 * UNKNOWN_MAX)))
    for _ in range(3 * UNKNOWN_MAX):
        gateway.will_answer("GET /registry/schemas/ids/1[0-9]+", {"error_code": 40403, "message": "unknown"}, 404)
    shown = run("consume", "t")
    assert len(shown.stdout.splitlines()) == 3 * UNKNOWN_MAX
    assert gateway.count("/registry") == shown.stderr.count("is shown as it is") == UNKNOWN_MAX


PROTOBUF = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; import "money.proto";
message Space { message Order { int64 id = 1; bytes raw = 2; google.protobuf.Timestamp at = 3; Kind kind = 4; m.Money price = 5;
  optional string note = 6; map<int32, bool> flags = 7; repeated uint64 sizes = 8; } enum Kind { NEW = 0; PAID = 1; } }"""
MONEY = 'syntax = "proto3"; package m; message Money { uint64 units = 1; }'


def test_values_of_protobuf_are_shown_by_their_fields(gateway: FakeGateway, run: Run) -> None:
    """Of a message within a message, whose file refers to another one; damaged bytes are shown as they are."""
    body = b"\x04\0\0\x08\x07\x12\x01\xff\x1a\x04\x08\x80\xf2\x65\x20\x01\x2a\x02\x08\x05\x3a\x04\x08\x03\x10\x01\x42\x01\x09"
    topic = gateway.create("t")
    values = (body, b"\x04\0\0\x08", b"\x02\x06", b"\xff")
    topic.records[0] = [Record("t", 0, at, 1_769_000_000_000, None, framed(3, one)) for at, one in enumerate(values)]
    references = [{"name": "money.proto", "subject": "money", "version": 1}]
    gateway.will_answer(
        "GET /registry/schemas/ids/3$", {"schema": PROTOBUF, "schemaType": "PROTOBUF", "references": references}
    )
    version = {"subject": "money", "version": 1, "id": 2, "schema": MONEY, "schemaType": "PROTOBUF"}
    gateway.will_answer("GET /registry/subjects/money/versions/1", version)
    shown = run("consume", "t", "-f", "%v\\n")
    first, *others = shown.stdout.splitlines()
    assert json.loads(first) == {
        "id": 7,
        "raw": "/w==",
        "at": "1970-01-20T07:42:56Z",
        "kind": "PAID",
        "price": {"units": 5},
        "note": None,
        "flags": {"3": True},
        "sizes": [9],
    }
    assert len(others) == 3
    assert "t/0@1 is shown as it is: the value is not of its schema 3" in shown.stderr
