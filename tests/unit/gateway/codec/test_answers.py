"""What fetches answer, byte for byte; that it can be read again is in the property tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.event_stream import PING, EventWriter
from gateway.codec.json_answer import Positions, failed_partition, json_pieces, ndjson_pieces
from gateway.codec.record_json import PIECE_BYTES, pieces
from log_format.records.schema import HEADERS, RECORD_SCHEMA, TIMESTAMP

POSITIONS = Positions(next_offset=5, high_watermark=9, log_start_offset=1)
EMPTY_ANSWER = (
    b'{"topic":"t","partition":0,"records":[],"next_offset":5,"high_watermark":9,"log_start_offset":1,"topic_id":"id"}'
)


def table(*rows: tuple[Any, Any, Any]) -> pa.Table:
    """Rows of key, value, headers at the offsets from 41 of partition 3."""
    count = len(rows)
    return pa.Table.from_arrays(
        [
            pa.array([3] * count, pa.int32()),
            pa.array(range(41, 41 + count), pa.int64()),
            pa.array([1_763_683_200_000_000 + index * 1000 for index in range(count)], pa.int64()).view(TIMESTAMP),
            pa.array([row[0] for row in rows], pa.binary()),
            pa.array([row[1] for row in rows], pa.binary()),
            pa.array([row[2] for row in rows], HEADERS),
        ],
        schema=RECORD_SCHEMA,
    )


RECORDS = table(
    (b"user-7", b'{"a":3}', [{"key": "trace", "value": b"ab"}, {"key": "trace", "value": b"\xff"}]),
    (None, None, None),
    (b"\xff\xfe", b"\x00", []),
)
LINES = (
    b'{"partition":3,"offset":41,"timestamp":1763683200000,"key":"user-7","value":"{\\"a\\":3}",'
    b'"headers":[{"key":"trace","value":"ab"},{"key":"trace","value_base64":"/w=="}]}\n'
    b'{"partition":3,"offset":42,"timestamp":1763683200001,"key":null,"value":null,"headers":[]}\n'
    b'{"partition":3,"offset":43,"timestamp":1763683200002,"key_base64":"//4=","value":"\\u0000","headers":[]}\n'
)


def test_json() -> None:
    """The members of the contract, in its order."""
    records = b",".join(LINES.splitlines())
    assert b"".join(json_pieces("t", 3, RECORDS, POSITIONS, topic_id="id")) == EMPTY_ANSWER.replace(
        b'"partition":0', b'"partition":3'
    ).replace(b"[]", b"[" + records + b"]")
    assert b"".join(json_pieces("t", 0, RECORDS.slice(0, 0), POSITIONS, topic_id="id")) == EMPTY_ANSWER


@pytest.mark.parametrize("piece_bytes", [1, 60, 1 << 20])
def test_pieces_are_the_whole(piece_bytes: int) -> None:
    """However finely records are cut, they are the same records."""
    assert pa.concat_tables(pieces(RECORDS, piece_bytes)).equals(RECORDS)


def test_a_large_answer_is_the_whole() -> None:
    """It is written in pieces."""
    large = table(*[(None, b"%d" % number * (PIECE_BYTES // 3), None) for number in range(9)])
    assert len(list(pieces(large))) > 3
    lines = [b"".join(ndjson_pieces(large.slice(number, 1))) for number in range(9)]
    assert b"".join(ndjson_pieces(large)) == b"".join(lines)
    records = b",".join(line.rstrip() for line in lines)
    assert b"".join(json_pieces("t", 0, large, POSITIONS, topic_id="id")) == EMPTY_ANSWER.replace(
        b"[]", b"[" + records + b"]"
    )


def test_every_control_character_is_escaped() -> None:
    """JSON allows none of them inside of strings; what JSON allows stays as it is."""
    text = bytes(range(0x20)) + b'"\\/\x7f\xe2\x80\xa8\xc3\xa9'
    line = b"".join(ndjson_pieces(table((text, text, [{"key": text.decode(), "value": text}]))))
    escapes = b"".join(
        {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r"}.get(code, b"\\u%04x" % code) for code in range(0x20)
    )
    assert line.count(escapes + b'\\"\\\\/\x7f\xe2\x80\xa8\xc3\xa9') == 4


def test_a_partition_that_failed() -> None:
    """It stands among the answers of others, with its problem."""
    assert failed_partition("u", 1, b'{"status":404}') == b'{"topic":"u","partition":1,"error":{"status":404}}'


def test_events() -> None:
    """An event for each record, whose id is where to go on; a ping is a comment; the end says why."""
    first, second, third = LINES.splitlines()
    assert b"".join(EventWriter().records(RECORDS)) == (
        b"id: 42\nevent: record\ndata: %b\n\nid: 43\nevent: record\ndata: %b\n\nid: 44\nevent: record\ndata: %b\n\n"
        % (first, second, third)
    )
    assert b"".join(EventWriter().records(RECORDS.slice(0, 0))) == b""
    assert PING.startswith(b":")
    assert PING.endswith(b"\n\n")
    assert EventWriter().end("draining\nnow", 44) == b'id: 44\nevent: end\ndata: {"reason":"draining\\nnow"}\n\n'


def test_arrow() -> None:
    """The table's columns, timestamps in milliseconds; the schema is there also without rows."""
    for rows in (RECORDS, RECORDS.slice(1, 1), RECORDS.slice(0, 0)):
        read = pa.ipc.open_stream(b"".join(arrow_pieces(rows))).read_all()
        assert read.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
        assert read.column_names == RECORD_SCHEMA.names
        assert read.cast(RECORD_SCHEMA).equals(rows)


def test_each_record_has_its_own_timestamp() -> None:
    """A timestamp that the first and last record share is not taken for that of the records between them."""
    times = pa.array([7_000, 8_000, 7_000], pa.int64()).view(TIMESTAMP)
    records = RECORDS.set_column(2, RECORDS.schema.field("timestamp"), times)
    lines = b"".join(ndjson_pieces(records)).splitlines()
    assert [line.split(b'"timestamp":')[1].split(b",")[0] for line in lines] == [b"7", b"8", b"7"]
