"""Fetch answers in JSON and in NDJSON. A large answer is made in pieces, each when it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from gateway.codec.large_record import object_pieces
from gateway.codec.record_json import is_large, pieces, record_objects
from gateway.codec.text_rows import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Offsets of an answer in its partition: where to continue, the end, and the first that can be read."""

    next_offset: int
    high_watermark: int
    log_start_offset: int


def json_pieces(
    topic: str, partition: int, records: pa.Table, positions: Positions, *, topic_id: str
) -> Iterator[bytes | memoryview]:
    """Encode the answer of one partition as a JSON object, in pieces.

    Args:
        topic: the topic's name.
        partition: the partition's number.
        records: the records, with ``RECORD_SCHEMA``.
        positions: the offsets that go with them.
        topic_id: id of the records' topic, which a topic re-created under the name does not have.
    """
    yield b'{"topic":%b,"partition":%d,"records":[' % (msgspec.json.encode(topic), partition)
    separator = b""
    for piece in pieces(records):
        if is_large(piece):
            yield separator
            yield from object_pieces(piece)
        else:
            # Each object begins with its comma, which saves a further pass over the text.
            yield text_of(record_objects(piece, lead=","))[1 - len(separator) :]
        separator = b","
    yield b'],"next_offset":%d,"high_watermark":%d,"log_start_offset":%d,"topic_id":%b}' % (
        positions.next_offset,
        positions.high_watermark,
        positions.log_start_offset,
        msgspec.json.encode(topic_id),
    )


def failed_partition(topic: str, partition: int, problem: bytes) -> bytes:
    """Encode the entry of a partition that can't be read; ``problem`` is its problem as JSON."""
    return b'{"topic":%b,"partition":%d,"error":%b}' % (msgspec.json.encode(topic), partition, problem)


def ndjson_pieces(records: pa.Table) -> Iterator[bytes | memoryview]:
    """Yield ``records`` (``RECORD_SCHEMA``) as one JSON object a line, each line ended, in pieces."""
    for piece in pieces(records):
        if is_large(piece):
            yield from object_pieces(piece)
            yield b"\n"
        else:
            yield text_of(record_objects(piece, end="\n"))
