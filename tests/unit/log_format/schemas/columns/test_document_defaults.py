"""Defaults of absent members: in a bulk of documents as in one alone."""

from __future__ import annotations

import json

import pyarrow as pa

from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.shape import ListOf, Member, Record, Scalar

_NUMBER = Scalar(pa.int64())


def test_null_is_not_absent() -> None:
    """A member that may be null and has another default is null where the document says so."""
    shape = Record((Member("n", _NUMBER, is_required=False, is_nullable=True, default=7),))
    texts = [b'{"n":null}', b"{}", b'{"n":1}'] * 8
    column, faults = Documents(shape).column_of(pa.array(texts, pa.binary()))
    assert not faults
    assert column.field(0).to_pylist() == [None, 7, 1] * 8


def test_items_of_a_list_have_defaults() -> None:
    """A record in a list gets the default of its absent member, too."""
    item = Record((Member("n", _NUMBER, is_required=False, default=7),))
    texts = [json.dumps({"list": [{}, {"n": number}]}).encode() for number in range(24)]
    column, faults = Documents(Record((Member("list", ListOf(item)),))).column_of(pa.array(texts, pa.binary()))
    assert not faults
    assert column.field(0).to_pylist() == [[{"n": 7}, {"n": number}] for number in range(24)]
