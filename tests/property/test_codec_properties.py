"""The codec against generated input: what it writes it reads back, and whatever comes it answers or refuses."""

from __future__ import annotations

import contextlib
import gzip
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.arrow_body import decode_arrow
from gateway.codec.compression import Decompressor
from gateway.codec.event_stream import EventWriter
from gateway.codec.json_answer import Positions, json_pieces, ndjson_pieces
from gateway.codec.json_body import decode_json
from gateway.codec.media_type import FETCH_TYPES, PRODUCE_TYPES, content_type, negotiate
from gateway.codec.ndjson_body import decode_ndjson
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.schema import BATCH_SCHEMA, HEADERS, RECORD_SCHEMA, TIMESTAMP_MS_MAX
from tests.support.codec_bodies import BOUNDED, BYTES_MAX, CHARACTERS, as_rows, outcome

POSITIONS = Positions(next_offset=7, high_watermark=9, log_start_offset=0)
TEXTS = st.text(CHARACTERS, max_size=8)

STORED_BYTES = st.one_of(st.none(), st.binary(max_size=8), TEXTS.map(str.encode))
STORED = st.lists(
    st.fixed_dictionaries(
        {
            "timestamp": st.integers(0, TIMESTAMP_MS_MAX),
            "key": STORED_BYTES,
            "value": STORED_BYTES,
            "headers": st.one_of(
                st.none(), st.lists(st.fixed_dictionaries({"key": TEXTS, "value": STORED_BYTES}), max_size=3)
            ),
        }
    ),
    max_size=6,
)


def stored_table(rows: list[dict[str, Any]], chunk_rows: int = 100) -> pa.Table:
    """Rows as a topic's table has them, perhaps in several chunks and as a slice of something longer."""
    count = len(rows)
    table = pa.Table.from_arrays(
        [
            pa.array([3] * count, pa.int32()),
            pa.array(range(41, 41 + count), pa.int64()),
            pa.array([row["timestamp"] * 1000 for row in rows], pa.int64()).view(BATCH_SCHEMA.field("timestamp").type),
            pa.array([row["key"] for row in rows], pa.binary()),
            pa.array([row["value"] for row in rows], pa.binary()),
            pa.array([row["headers"] for row in rows], HEADERS),
        ],
        schema=RECORD_SCHEMA,
    )
    parts = [table.slice(start, chunk_rows) for start in range(0, count, chunk_rows)]
    return pa.concat_tables(parts) if parts else table


def expected_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "partition": 3, "headers": row["headers"] or []} for row in rows]


@BOUNDED
@given(STORED, st.integers(1, 4))
def test_answers_can_be_produced_again(rows: list[dict[str, Any]], chunk_rows: int) -> None:
    """What a fetch answers, in every form, is JSON as everybody reads it, and produces the same records again."""
    table = stored_table(rows, chunk_rows)
    body = b"".join(json_pieces("täglich", 3, table, POSITIONS, topic_id="id"))
    answer = json.loads(body)
    offsets = ["next_offset", "high_watermark", "log_start_offset"]
    assert list(answer) == ["topic", "partition", "records", *offsets, "topic_id"]
    assert (answer["topic"], answer["partition"], answer["next_offset"]) == ("täglich", 3, 7)
    assert [record["offset"] for record in answer["records"]] == list(range(41, 41 + len(rows)))
    for record in answer["records"]:
        plain = [name.removesuffix("_base64") for name in record]
        assert plain == ["partition", "offset", "timestamp", "key", "value", "headers"]
    again = json.dumps({"records": answer["records"]}).encode()
    assert as_rows(decode_json(again)) == expected_rows(rows)
    lines = b"".join(ndjson_pieces(table))
    assert [json.loads(line) for line in lines.splitlines()] == answer["records"] or b"\xe2\x80\xa8" in lines
    assert lines.count(b"\n") == len(rows)
    assert as_rows(decode_ndjson(lines)) == expected_rows(rows)
    assert as_rows(decode_arrow(b"".join(arrow_pieces(table)), bytes_max=BYTES_MAX)) == expected_rows(rows)
    events = b"".join(EventWriter().records(table)).split(b"\n\n")
    assert events.pop() == b""
    for event, record in zip(events, answer["records"], strict=True):
        identity, kind, data = event.split(b"\n")
        assert (identity, kind) == (b"id: %d" % (record["offset"] + 1), b"event: record")
        assert json.loads(data.removeprefix(b"data: ")) == record


@BOUNDED
@given(STORED, st.data())
def test_damaged_arrow_is_decoded_or_refused(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """A stream with bytes changed, compressed or not, is decoded to something valid or refused; a cut one is refused."""
    table = stored_table(rows, data.draw(st.integers(1, 4)))
    sink = pa.BufferOutputStream()
    compression = data.draw(st.sampled_from([None, "lz4", "zstd"]))
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    whole = sink.getvalue().to_pybytes()
    assert outcome(lambda: decode_arrow(whole, bytes_max=BYTES_MAX)) == expected_rows(rows)
    assert (
        outcome(lambda: decode_arrow(whole[: data.draw(st.integers(0, len(whole) - 1))], bytes_max=BYTES_MAX)) is None
    )
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.sampled_from([0, 1, 7, 127, 128, 255]))
    outcome(lambda: decode_arrow(bytes(damaged), bytes_max=BYTES_MAX))


@BOUNDED
@given(st.lists(STORED_BYTES, max_size=6), st.integers(0, 5), st.booleans())
def test_every_kind_of_bytes_column_reads_the_same(values: list[bytes | None], start: int, headed: bool) -> None:
    """Plain, large, view, dictionary: as values, as keys and inside headers, also when sliced."""
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.dictionary(pa.int32(), pa.binary())]
    plain = pa.array(values, pa.binary())
    for kind in kinds:
        column = plain.cast(kind) if not pa.types.is_dictionary(kind) else plain.dictionary_encode()
        columns = {"value": column, "key": column}
        if headed:
            names = pa.array([f"h{index}" for index in range(len(values))], pa.string_view())
            elements = pa.StructArray.from_arrays([column, names], names=["value", "key"])
            columns["headers"] = pa.LargeListArray.from_arrays(np.arange(len(values) + 1), elements)
        table = pa.table(columns).slice(start)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        rows = as_rows(decode_arrow(sink.getvalue().to_pybytes(), bytes_max=BYTES_MAX))
        assert [row["value"] for row in rows] == [row["key"] for row in rows] == values[start:]
        if headed:
            assert [row["headers"][0]["value"] for row in rows] == values[start:]


@BOUNDED
@given(
    st.sampled_from(["gzip", "zstd"]),
    st.binary(max_size=400),
    st.lists(st.integers(1, 50), max_size=6),
    st.booleans(),
    st.data(),
)
def test_compressed_bodies_come_out_whole_or_not_at_all(
    encoding: str, body: bytes, cuts: list[int], twice: bool, data: st.DataObject
) -> None:
    """However a stream is cut into chunks it gives the same; one byte short of its end, or of what is allowed, it is refused."""
    stream = (gzip.compress(body) if encoding == "gzip" else zstandard.compress(body)) * (2 if twice else 1)
    whole = body * (2 if twice else 1)

    def decompressed(stream: bytes, bytes_max: int) -> bytes:
        decompressor = Decompressor(encoding, bytes_max)
        out, start = [], 0
        for cut in [*cuts, len(stream)]:
            out.append(decompressor.feed(stream[start : start + cut]))
            start += cut
        return b"".join(out) + decompressor.finish()

    assert decompressed(stream, len(whole)) == whole
    boundaries = {len(stream), len(stream) // 2} if twice else {len(stream)}
    cut = data.draw(st.integers(0, len(stream) - 1))
    if cut not in boundaries:
        with pytest.raises(RequestRefused) as refusal:
            decompressed(stream[:cut], len(whole))
        assert refusal.value.code is ErrorCode.INVALID_REQUEST
    if whole:
        with pytest.raises(RequestRefused) as refusal:
            decompressed(stream, len(whole) - 1)
        assert refusal.value.code is ErrorCode.REQUEST_TOO_LARGE


@BOUNDED
@given(st.sampled_from(["gzip", "zstd"]), st.binary(max_size=100), st.binary(max_size=3), st.integers(0, 200))
def test_damaged_streams_are_decompressed_or_refused(encoding: str, body: bytes, noise: bytes, place: int) -> None:
    """Bytes changed anywhere: something comes out or the body is refused, within the bound."""
    stream = bytearray(gzip.compress(body, mtime=0) if encoding == "gzip" else zstandard.compress(body))
    stream[place : place + len(noise)] = noise
    decompressor = Decompressor(encoding, 1000)
    with contextlib.suppress(RequestRefused):
        assert len(decompressor.feed(bytes(stream)) + decompressor.finish()) <= 1000


@BOUNDED
@given(st.text(st.sampled_from('aj/*;,q=.019"\\ \t-+'), max_size=30))
def test_any_header_is_understood_or_refused(header: str) -> None:
    """``Accept`` and ``Content-Type`` of any content give one of the types or a refusal."""
    with contextlib.suppress(RequestRefused):
        assert negotiate(header) in FETCH_TYPES
    with contextlib.suppress(RequestRefused):
        assert content_type(header) in PRODUCE_TYPES
