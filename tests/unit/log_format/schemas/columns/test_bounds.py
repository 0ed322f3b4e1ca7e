"""Schemas and values that would take without bound are refused soon, by name."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

from log_format.schemas.columns.avro_schema import avro_reader
from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.shape import MapOf, Member, Record, Scalar, Untypable


def test_types_that_double_with_each_level_are_counted_first() -> None:
    """Each level has the one below it twice; the columns are counted before any is made."""
    text = '"int"'
    for level in range(24):
        inner = text if level == 0 else f'"E{level - 1}"'
        text = f'{{"type":"record","name":"E{level}","fields":[{{"name":"p","type":{text}}},{{"name":"q","type":{inner}}}]}}'
    began = time.monotonic()
    with pytest.raises(Untypable, match="more than"):
        avro_reader(text)
    assert time.monotonic() - began < 5


def test_a_fixed_has_its_size_in_a_document_too() -> None:
    """As in Avro's bytes."""
    schema = {
        "type": "record",
        "name": "A",
        "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 4}}],
    }
    documents = Documents(avro_reader(json.dumps(schema)).shape)
    _, faults = documents.column_of(pa.array([b'{"f":"AAAAAA=="}', b'{"f":"AA=="}'], pa.binary()))
    assert faults.keys() == {1}


def test_texts_and_numbers_that_a_column_cant_have_are_refused_alone() -> None:
    """Half a surrogate pair as a name, and a zero with a huge exponent, which is zero."""
    shape = Record(
        (
            Member("m", MapOf(Scalar(pa.int64())), is_required=False),
            Member("d", Scalar(pa.decimal128(10, 2)), is_required=False),
        )
    )
    texts = [b'{"m":{"\\ud800":1}}', b'{"d":"0e99999999"}', b'{"d":1}', b'{"\\ud800":1}']
    _, faults = Documents(shape).column_of(pa.array(texts, pa.binary()))
    assert faults.keys() == {0, 3}
    for fault in faults.values():
        fault.path.encode()


def test_many_members_with_one_twice_take_no_square() -> None:
    """Twenty thousand members."""
    text = b"{" + b",".join(b'"m%d":1' % number for number in range(20_000)) + b',"m19999":2}'
    began = time.monotonic()
    _, faults = Documents(Record((Member("m0", Scalar(pa.int64())),))).column_of(pa.array([text], pa.binary()))
    assert faults[0].path == "m19999"
    assert time.monotonic() - began < 1
