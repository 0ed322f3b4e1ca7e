"""Null in JSON documents that are parsed in bulk: where it is right it costs nothing, and where it is wrong it is refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from log_format.schemas.columns.documents import Documents, Refused
from log_format.schemas.columns.shape import ListOf, Member, Record, Scalar

_LONG = Scalar(pa.int64())
_INNER = Record((Member("must", _LONG), Member("may", _LONG, is_required=False)))
_SHAPE = Record(
    (
        Member("id", _LONG),
        Member("note", Scalar(pa.string()), is_required=False, is_nullable=True),
        Member("may", _LONG, is_required=False),
        Member("counted", _LONG, is_required=False, default=7),
        Member("inner", _INNER, is_required=False, is_nullable=True),
        Member("items", ListOf(_INNER), is_required=False),
    ),
    is_open=True,
)
_PLAIN = {"id": 1, "may": 2, "items": [{"must": 1}, {"must": 2, "may": 3}]}

_RIGHT: list[dict[str, Any]] = [
    {"id": 1, "note": None},
    {"id": 1, "note": "null", "unknown": None},
    {"id": 1, "inner": None, "items": []},
    {"id": 1, "note": None, "inner": {"must": 1, "may": 2}, "may": 3, "counted": 1, "items": [{"must": 1, "may": 1}]},
]
_WRONG: list[dict[str, Any]] = [
    {"id": None},
    {"id": 1, "may": None},
    {"id": 1, "counted": None},
    {"id": 1, "note": None, "inner": {"must": 1, "may": None}},
    {"id": 1, "inner": {"must": None}},
    {"id": 1, "items": None},
    {"id": 1, "items": [None]},
    {"id": 1, "may": 1, "counted": 1, "items": [{"must": 1, "may": 1}, {"must": 1, "may": None}]},
]


@pytest.mark.parametrize("document", _WRONG, ids=json.dumps)
def test_a_null_that_is_not_allowed_is_refused(document: dict[str, Any]) -> None:
    """Among many documents, with the words that it gets alone, and the others are taken."""
    documents, count = Documents(_SHAPE), 20
    texts = [json.dumps(one).encode() for one in [*[_PLAIN] * count, document, *_RIGHT]]
    column, faults = documents.column_of(pa.array(texts, pa.binary()))
    with pytest.raises(Refused) as alone:
        documents.value_of(texts[count])
    assert faults == {count: alone.value.fault}
    assert column.null_count == 1
    assert [one and one["counted"] for one in column.to_pylist()] == [7] * count + [None] + [7] * 3 + [1]


def test_nulls_that_are_allowed_are_read_in_bulk() -> None:
    """Documents with null where it may be, or as a text, or in a member without column, are not judged one by one."""
    full = {"id": 1, "may": 2, "counted": 3, "items": [{"must": 1, "may": 2}]}
    texts = pa.array([json.dumps(full | one).encode() for one in _RIGHT * 5], pa.binary())
    found = Documents(_SHAPE).together(texts)
    assert found is not None
    column, doubtful = found
    assert not doubtful.any()
    assert column.field("note").to_pylist()[:2] == [None, "null"]
