"""JSON documents of Protobuf, many at once: the bulk reads what a sender writes, and is in doubt about every other form."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from log_format.schemas.columns.protobuf_bulk_documents import BulkDocuments
from log_format.schemas.columns.protobuf_values import ProtobufValues
from log_format.schemas.parsing_protobuf import parse_protobuf

_TEXT: Final = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
    enum E { ZERO = 0; ONE = 1; }
    message N { int32 low = 1; repeated uint32 many = 2; }
    message M { int64 long_one = 1; int32 small = 2; uint64 large = 3; double real = 4; float single = 5; bool flag = 6;
        E symbol = 7; string text = 8; google.protobuf.Timestamp at = 9; N inner = 10; repeated N list = 11;
        repeated E symbols = 12; oneof choice { int32 first = 13; N second = 14; } optional int32 maybe = 15;
        google.protobuf.Int64Value wrapped = 16;
        bytes raw = 17; map<string, int32> map = 18; }"""
_FULL: Final[dict[str, Any]] = {
    "longOne": "7",
    "small": 3,
    "large": "18",
    "real": 1.5,
    "single": 2.5,
    "flag": True,
    "symbol": "ONE",
    "text": "x",
    "at": "2026-01-31T23:59:59.5Z",
    "inner": {"low": 1, "many": [1, 2]},
    "list": [{"low": 2}, {}],
    "symbols": ["ONE"],
    "first": 1,
    "maybe": 0,
    "wrapped": "9",
}
_FORMS: Final[list[tuple[str, tuple[Any, ...]]]] = [
    ("longOne", ("01", "+1", "1e1", "1.0", " 1", "", "x", "9223372036854775808", 1, None)),
    ("small", (2**31, -(2**31) - 1, "1", 1.0, True, None)),
    ("large", ("-1", "18446744073709551615", "18446744073709551616")),
    ("real", ("NaN", "1.5", 1, None)),
    ("single", (1e39, -1e39, 3.4e38)),
    ("symbol", ("TWO", "one", 1, 2, None)),
    ("at", ("2026-01-31 23:59:59Z", "2026-01-31T23:59:59", "2026-01-31T23:59:59.1234567Z", "2026-01-31")),
    ("at", ("0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "2026-01-31T23:59:59+01:00")),
    ("inner", ({}, {"low": 2**31}, {"many": [None]}, {"many": [2**32]}, {"other": 1}, None, [])),
    ("list", ([], [None], [{"low": "x"}], {})),
    ("symbols", ([], ["TWO"], [1], [None])),
    ("second", ({}, None)),
    ("wrapped", ("x", None, {"value": 1})),
    ("raw", ("YQ==", "?")),
    ("map", ({"a": 1},)),
    ("long_one", ("8",)),
    ("further", (1,)),
    ("text", (None,)),
]
_ODD: Final = [{name: form} for name, forms in _FORMS for form in forms]


def _values(bulk_min: int = 1) -> ProtobufValues:
    return ProtobufValues(parse_protobuf(_TEXT, []), bulk_min=bulk_min)


def _encoded(documents: list[dict[str, Any]]) -> pa.BinaryArray:
    return pa.array([json.dumps(one).encode() for one in documents], pa.binary())


def _bulk(documents: list[dict[str, Any]]) -> Any:
    return BulkDocuments(_values()._message).column_of(_encoded(documents))


def test_what_serializers_write_is_read_together() -> None:
    """Without a doubt: full documents, and such with some of their members."""
    documents = [_FULL, *({name: one} for name, one in _FULL.items()), {}] * 3
    column, doubtful = _bulk(documents)
    assert not doubtful.any()
    other, faults = _values(10**9).documents(_encoded(documents))
    assert not faults
    assert column.to_pylist() == other.to_pylist()


@pytest.mark.parametrize("odd", _ODD, ids=json.dumps)
def test_another_form_is_judged_as_alone(odd: dict[str, Any]) -> None:
    """Behind documents of a serializer's; the others keep their values."""
    texts = _encoded([_FULL] * 20 + [_FULL | odd] + [_FULL] * 3)
    together, faults = _values().documents(texts)
    together.validate(full=True)
    alone, others = _values(10**9).documents(texts)
    assert faults == others
    assert set(faults) <= {20}
    assert repr(together.to_pylist()) == repr(alone.to_pylist())


def test_long_lists_are_bounded_as_alone() -> None:
    """A document whose lists may have too many cells is in doubt; items of very many columns are never read together."""
    documents = [_FULL] * 16 + [{"list": [{}] * 12_000}]
    _, doubtful = _bulk(documents)
    assert np.flatnonzero(doubtful).tolist() == [16]
    fields = " ".join(f"int32 f{number} = {number};" for number in range(1, 40))
    wide = parse_protobuf(f'syntax = "proto3"; message W {{ repeated I items = 1; }} message I {{ {fields} }}', [])
    assert BulkDocuments(ProtobufValues(wide)._message).column_of(_encoded([{"items": [{}]}] * 20)) is None


def test_many_take_a_fraction_of_the_time() -> None:
    """The quickest of three runs of 5,000 documents, together beside alone."""
    texts = _encoded([_FULL] * 5_000)

    def quickest(values: ProtobufValues) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            values.documents(texts)
            times.append(time.process_time() - began)
        return min(times)

    assert quickest(_values()) * 3 < quickest(_values(10**9))
