"""Topics of Protobuf and of full JSON Schema that leave values out (``value.keep=false``): what is sent, and what readers get."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from tests.support.reading_doors import Records


@dataclass(frozen=True, kw_only=True)
class Format:
    """A schema, and records of it by key: rows as columns, values as they are, and the texts that readers get of them."""

    kind: str
    schema: str
    rows: Mapping[str, tuple[dict[str, Any], str]]
    sent: Mapping[str, str]
    """Documents and, behind ``FRAME``, a value of Confluent's serializers; those that don't fit are marked."""
    left_out: frozenset[str]
    """Keys of the records whose values the table does not have."""

    @property
    def members(self) -> pa.StructType:
        """The type of the rows."""
        return _type_of(pa.array([row for row, _ in self.rows.values()]).type)

    def wanted(self, schema_id: int, pads: Records) -> Records:
        """What readers get, behind the pads."""
        rows: Records = [(key, text) for key, (_, text) in self.rows.items()]
        return [*pads, *rows, *((key, framed(text, schema_id)) for key, text in self.sent.items()), ("gone", None)]


FRAME: Final = "\0frame"


def framed(value: str, schema_id: int) -> str:
    """The value with Confluent's header, if it has to have one; its bytes are UTF-8 all the same."""
    return value.replace(FRAME, "\0" + schema_id.to_bytes(4, "big").decode()) if FRAME in value else value


def _type_of(drawn: pa.DataType) -> pa.DataType:
    """Arrow's type of Python values, with maps for lists of pairs and the decimal of an unsigned integer."""
    if pa.types.is_struct(drawn):
        return pa.struct([field.with_type(_type_of(field.type)) for field in drawn])
    if pa.types.is_decimal(drawn):
        return pa.decimal128(20, 0)
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(drawn) else drawn


_MESSAGE: Final = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Order { int64 id = 1; double amount = 2; optional string note = 3; uint64 count = 4; Kind kind = 5; Line line = 6;
  google.protobuf.Timestamp made_at = 7; repeated Line lines = 8; google.protobuf.Int32Value wrapped = 9;
  repeated string tags = 10; enum Kind { NEW = 0; PAID = 1; }
  message Line { bytes sku = 1; bool is_new = 2; Deep deep = 3; message Deep { int32 n = 1; } } }"""
_LINE: Final = {"sku": b"ab", "is_new": True, "deep": {"n": 3}}
_LINE_TEXT: Final = '{"sku":"YWI=","is_new":true,"deep":{"n":3}}'
_WHOLE: Final = {
    "id": 1,
    "amount": 1.5,
    "note": "needle",
    "count": Decimal(2**64 - 1),
    "kind": "PAID",
    "line": _LINE,
    "made_at": datetime(2026, 1, 31, 23, 59, 59, 5, tzinfo=UTC),
    "lines": [_LINE],
    "wrapped": 7,
    "tags": ["a", ""],
}
_WHOLE_TEXT: Final = (
    '{"id":1,"amount":1.5,"note":"needle","count":"18446744073709551615","kind":"PAID",'
    f'"line":{_LINE_TEXT},"made_at":"2026-01-31T23:59:59.000005Z","lines":[{_LINE_TEXT}],"wrapped":7,"tags":["a",""]}}'
)
_RULES: Final = {
    "allOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}, "amount": {"type": "number"}}, "required": ["id"]},
        {
            "properties": {
                "note": {"type": "string"},
                "state": {"type": "string", "oneOf": [{"const": one, "title": one.upper()} for one in ("new", "paid")]},
                "place": {
                    "type": "object",
                    "properties": {"in": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                },
            }
        },
    ],
    "anyOf": [{"required": ["amount"]}, {"required": ["note"]}],
    "not": {"required": ["forbidden"]},
}
_CHOICES: Final = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "paid": {"oneOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Cash"}]},
        "code": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "$defs": {
        name: {"type": "object", "properties": {"by": {"type": "string", "const": name}, "n": kind}, "required": ["by"]}
        for name, kind in (("Card", {"type": "string"}), ("Cash", {"type": "integer"}))
    },
}
_NOTHING: Final = dict.fromkeys(("note", "state", "place"))
FORMATS: Final = {
    "protobuf": Format(
        kind="PROTOBUF",
        schema=_MESSAGE,
        rows={
            "k1": (_WHOLE, _WHOLE_TEXT),
            "k2": (
                dict.fromkeys(_WHOLE) | {"id": 2},
                '{"id":2,"amount":0,"count":"0","kind":"NEW","lines":[],"tags":[]}',
            ),
        },
        sent={
            "k3": '{"id":"3","madeAt":"2026-01-31T00:00:00Z","kind":1,"note":"needle"}',
            "k4": f"{FRAME}\0\x08\x05\x1a\x06needle",
            "k5": '{"id":"x"}',
            "k6": f"{FRAME}\0\x08",
        },
        left_out=frozenset({"k1", "k2"}),
    ),
    "rules": Format(
        kind="JSON",
        schema=json.dumps(_RULES),
        rows={
            "k1": (
                {"id": 1, "amount": 1.5, "note": "needle", "state": "paid", "place": {"in": {"n": 3}}},
                '{"id":1,"amount":1.5,"note":"needle","state":"paid","place":{"in":{"n":3}}}',
            ),
            "k2": (_NOTHING | {"id": 2, "amount": None}, '{"id":2}'),
            "k3": (_NOTHING | {"id": 3, "amount": 2.0}, '{"id":3,"amount":2}'),
        },
        sent={
            "k4": '{"id":4,"amount":10}',
            "k5": '{"id":5,"note":"needle","forbidden":1}',
            "k6": '{"id":6,"note":"a","state":"x"}',
            "k7": '{"id":7,"amount":1,"more":[1]}',
        },
        left_out=frozenset({"k1", "k3", "k4"}),
    ),
    "choices": Format(
        kind="JSON",
        schema=json.dumps(_CHOICES),
        rows={
            "k1": (
                {
                    "id": 1,
                    "note": "needle",
                    "paid": {"Card": {"by": "Card", "n": "4"}, "Cash": None},
                    "code": {"integer": 7, "string": None},
                },
                '{"id":1,"note":"needle","paid":{"by":"Card","n":"4"},"code":7}',
            ),
            "k2": (
                {
                    "id": 2,
                    "note": None,
                    "paid": {"Card": None, "Cash": {"by": "Cash", "n": 4}},
                    "code": {"integer": None, "string": "x"},
                },
                '{"id":2,"paid":{"by":"Cash","n":4},"code":"x"}',
            ),
        },
        sent={"k3": '{"id":3,"paid":{"n":"needle","by":"Card"}}', "k4": '{"id":4,"paid":{"by":"Cash","n":"x"}}'},
        left_out=frozenset(),
    ),
}
