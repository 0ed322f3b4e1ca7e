"""Bodies that are dense, deep or split into many parts cost no more than their size allows, however short they were as sent."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.codec import json_structure, json_text
from gateway.codec.arrow_body import decode_arrow
from gateway.codec.compression import MEMBERS_MAX, Decompressor
from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_body import decode_json
from gateway.codec.ndjson_body import decode_ndjson
from log_format.errors import RequestRefused
from log_format.limits import HEADERS_PER_RECORD_MAX
from tests.support.cpu_time import cpu_seconds, is_cheap

MEBIBYTE = 1024 * 1024
BYTES_MAX = 16 * MEBIBYTE
TEXTS = st.text(st.sampled_from('a"\\,[]{}:é'), max_size=5)
DOCUMENTS: Any = st.recursive(
    TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
)


def allocated_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refusal(call: Callable[[], object]) -> RequestRefused:
    with pytest.raises(RequestRefused) as refused:
        call()
    return refused.value


def arrow(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decompressed(encoding: str, stream: bytes) -> bytes:
    decompressor = Decompressor(encoding, BYTES_MAX)
    return b"".join(decompressor.feed(stream[at : at + MEBIBYTE]) for at in range(0, len(stream), MEBIBYTE)) + (
        decompressor.finish()
    )


def test_each_member_of_a_stream_costs_the_same() -> None:
    """What lies behind a member is not copied for each: thousands of short ones before a long one are undone in a moment."""
    stream = gzip.compress(b"") * 4_000 + gzip.compress(bytes(12 * MEBIBYTE), 0)
    assert is_cheap(lambda: Decompressor("gzip", BYTES_MAX).feed(stream), 1.5)


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_members_are_counted(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    """A stream of more members or frames than any client makes is 400; one of that many is what it says."""
    member = compress(b"x")
    assert decompressed(encoding, member * MEMBERS_MAX) == b"x" * MEMBERS_MAX
    error = refusal(lambda: decompressed(encoding, member * (MEMBERS_MAX + 2)))
    assert (error.status, error.fields["errors"][0]["where"]) == (400, "Content-Encoding")


@settings(max_examples=60)
@given(value=st.lists(DOCUMENTS), piece_bytes=st.integers(1, 9), indent=st.sampled_from([None, 1]))
def test_structure_is_that_of_the_parsed_text(value: list[Any], piece_bytes: int, indent: int | None) -> None:
    """Elements, commas and names are found where a parser finds them, wherever the pieces end."""
    text = json.dumps(value, ensure_ascii=False, indent=indent).encode()

    def nodes(part: Any) -> int:
        if not isinstance(part, list | dict):
            return 0
        inner = part.values() if isinstance(part, dict) else part
        return 1 + max(0, len(part) - 1) + sum(map(nodes, inner))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_structure, "PIECE_BYTES", piece_bytes)
        for records_max, bytes_max in ((1, 100), (3, 100), (100, 0), (100, 7)):
            groups = list(json_structure.elements(text, records_max, bytes_max))
            assert all(len(json.loads(b"[%b]" % group)) == count <= records_max for count, group in groups)
            assert [one for _, group in groups for one in json.loads(b"[%b]" % group)] == value
        assert not json_structure.nodes_exceed(text, nodes(value))
        assert json_structure.nodes_exceed(text, nodes(value) - 1)
        assert not json_structure.elements_exceed(text, max(1, len(value)))
        assert len(value) < 2 or json_structure.elements_exceed(text, len(value) - 1)
        assert list(json_structure.names(text)) == list(json_text._names(text))


@pytest.mark.parametrize("element", [b"0", b'"\\ud800"', b"[]", b'{"a":0,"a":0}', b'{"value":1,"a\\u0061":"\\ud800"}'])
def test_bad_records_by_the_million_cost_little(element: bytes) -> None:
    """What can't be a record is named without an object for each that might be one."""
    body = b'{"records":[%b]}' % b",".join([element] * (MEBIBYTE * 5 // 2 // (len(element) + 1)))
    assert allocated_bytes(lambda: refusal(lambda: decode_json(body))) < 8 * len(body)


@pytest.mark.parametrize("unit", [b"\\\\", b"\\/", b'\\"', b"\\u00e9a"])
def test_long_strings_are_not_remembered_step_by_step(unit: bytes) -> None:
    """Looking for names given twice, and writing a value in its shortest form, takes a few times the text."""
    text = b'{"a":"%b"}' % (unit * (MEBIBYTE // 2 // len(unit)))
    for look in (json_text.repeated_member, json_text.compact):
        assert allocated_bytes(partial(look, text)) < 12 * MEBIBYTE


def test_blank_lines_do_not_make_the_others_slow() -> None:
    """Lines with blank ones between them are read as fast as without; bad ones are named as ever."""
    count = 200_000
    plain, spaced = b'{"value":"x"}\n' * count, b'{"value":"x"}\n\r\n\n' * count
    once = cpu_seconds(lambda: decode_ndjson(plain))
    assert is_cheap(lambda: decode_ndjson(spaced), 0.2 + 3 * once)
    assert len(decode_ndjson(spaced)) == count
    error = refusal(lambda: decode_ndjson(spaced + b"\n0\n"))
    assert error.fields["errors"][0]["where"] == f"line {3 * count + 2}"


@pytest.mark.parametrize("value", [b"-0", b"[-0]"])
def test_numbers_that_have_to_keep_their_text_are_no_slower(value: bytes) -> None:
    """A negative zero in each record: read as fast as other numbers, within a small factor."""
    other = value.replace(b"-0", b"-1")
    bodies = {text: b'{"records":[%b]}' % b",".join([b'{"value":%b}' % text] * 100_000) for text in (value, other)}
    once = cpu_seconds(lambda: decode_json(bodies[other]))
    assert is_cheap(lambda: decode_json(bodies[value]), 0.2 + 3 * once)


DICTIONARY = pa.array([""] * 500_000)


def test_a_dictionary_is_looked_at_once() -> None:
    """Thousands of batches that name one large dictionary cost what it and they cost, not one times the other."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), DICTIONARY)
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    body = arrow(batch.schema, [batch] * 3_000)
    assert is_cheap(lambda: decode_arrow(body, bytes_max=BYTES_MAX), 2)


def test_dictionaries_of_headers_are_counted() -> None:
    """Those that would be looked through again and again are refused before they are."""
    names = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), DICTIONARY)
    headers = pa.ListArray.from_arrays(
        pa.array([0, 1], pa.int32()), pa.StructArray.from_arrays([names] * 2, ["key", "value"])
    )
    batch = pa.RecordBatch.from_arrays([pa.array([b""]), headers], ["value", "headers"])
    assert len(decode_arrow(arrow(batch.schema, [batch] * 3), bytes_max=BYTES_MAX)) == 3
    assert refusal(lambda: decode_arrow(arrow(batch.schema, [batch] * 100), bytes_max=BYTES_MAX)).status == 400


@pytest.mark.parametrize("place", ["value", "dictionary", "headers"])
def test_values_without_bytes_are_only_claims(place: str) -> None:
    """Billions of values of no width, in a body of a few hundred bytes, are 413 before anything is made of them."""
    count = 1_000_000_000
    nothing = pa.Array.from_buffers(pa.binary(0), count, [None, pa.py_buffer(b"")])
    columns = {"value": nothing}
    if place == "dictionary":
        columns = {"value": pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), nothing, safe=False)}
    elif place == "headers":
        pairs = pa.StructArray.from_arrays([nothing, nothing], ["key", "value"])
        columns = {
            "value": pa.array([b""]),
            "headers": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pairs),
        }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    body = arrow(batch.schema, [batch])
    assert len(body) < 2_000
    assert is_cheap(lambda: refusal(lambda: decode_arrow(body, bytes_max=BYTES_MAX)), 1)


def json_headers(count: int) -> IncomingRecords:
    header = b'{"key":"a","value":""}'
    return decode_json(b'{"records":[{"value":""},{"value":"","headers":[%b]}]}' % b",".join([header] * count))


def ndjson_headers(count: int) -> IncomingRecords:
    headers = b",".join(b'"%x":""' % number for number in range(count))
    return decode_ndjson(b'{"value":""}\n{"value":"","headers":{%b}}' % headers)


def arrow_headers(count: int) -> IncomingRecords:
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([""]))
    pairs = pa.StructArray.from_arrays([names, pa.nulls(count, pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 0, count], pa.int32()), pairs)
    batch = pa.RecordBatch.from_arrays([pa.array([b"", b""]), headers], ["value", "headers"])
    return decode_arrow(arrow(batch.schema, [batch]), bytes_max=BYTES_MAX)


@pytest.mark.parametrize(
    ("decode", "where"),
    [(json_headers, "/records/1/headers"), (ndjson_headers, "line 2"), (arrow_headers, "/records/1/headers")],
)
def test_headers_are_counted(decode: Callable[[int], IncomingRecords], where: str) -> None:
    """A record with more headers than there may be is named, in every content type, also where there are many times more."""
    assert len(decode(HEADERS_PER_RECORD_MAX)) == 2
    for count in (HEADERS_PER_RECORD_MAX + 1, 150_000):
        error = refusal(partial(decode, count))
        assert (error.status, str(error.code), error.fields["errors"][0]["where"]) == (400, "INVALID_RECORD", where)
