"""The codec by itself: request bodies that are decoded, and answers that are written.

CPU per record to decode request bodies and to write answers. Each figure stands beside its floor of the same run: a parse or a
copy of the same bytes, without the work that the contract asks for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow as pa

from benchmarks.harness.bodies import arrow_body, log_lines
from benchmarks.harness.cpu import best_cpu_us, repeated
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from gateway.codec.arrow_answer import arrow_pieces
from gateway.codec.arrow_body import decode_arrow
from gateway.codec.event_stream import EventWriter
from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_answer import Positions, json_pieces, ndjson_pieces
from gateway.codec.json_body import decode_json
from gateway.codec.ndjson_body import decode_ndjson
from gateway.codec.partitioning import route
from log_format.records.schema import BATCH_SCHEMA, RECORD_SCHEMA

BYTES_MAX = 64 * 1024 * 1024
ROUNDS = 7
ROUND_SECONDS = 0.15
POSITIONS = Positions(next_offset=1_000, high_watermark=1_000, log_start_offset=0)
FIRST_OFFSET = 1_234_567
FIRST_MS = 1_763_683_200_000
"""The first offset and timestamp of answers, as in a topic that is used today."""


class _Shape(msgspec.Struct):
    value: object
    key: str | None = None


class _ShapeBody(msgspec.Struct):
    records: list[_Shape]


def decoding(records: int, value_bytes: int) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Return the name of each case, decoding, and its floor."""
    texts = log_lines(records, value_bytes, 1)
    keys = [f"key-{index % 5000}" for index in range(records)]
    plain = [{"key": key, "value": text} for key, text in zip(keys, texts, strict=True)]
    documents = [
        {"key": key, "value": {"id": index, "delay": 1.5, "carrier": "UA", "text": text[: max(1, value_bytes - 50)]}}
        for index, (key, text) in enumerate(zip(keys, texts, strict=True))
    ]
    headed = [{**record, "headers": [{"key": "trace", "value": "ab"}]} for record in plain]
    escaped = [{"key": key, "value": json.dumps({"a": 1, "b": text})} for key, text in zip(keys, texts, strict=True)]
    floor = msgspec.json.Decoder(_ShapeBody)
    lines = msgspec.json.Decoder(_Shape)
    cases: list[tuple[str, Callable[[], object], Callable[[], object]]] = []
    for name, content in (("text", plain), ("documents", documents), ("headers", headed), ("escaped", escaped)):
        body = json.dumps({"records": content}).encode()
        cases.append((f"JSON, {name}", lambda body=body: decode_json(body), lambda body=body: floor.decode(body)))  # type: ignore[misc]
    ndjson = b"".join(json.dumps(record).encode() + b"\n" for record in plain)
    cases.append(("NDJSON, text", lambda: decode_ndjson(ndjson), lambda: lines.decode_lines(ndjson)))
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(texts, pa.binary())})
    stream = arrow_body(table)
    cases.append(
        (
            "Arrow",
            lambda: decode_arrow(stream, bytes_max=BYTES_MAX),
            lambda: pa.ipc.open_stream(stream).read_all(),
        )
    )
    incoming = decode_json(json.dumps({"records": plain}).encode())
    cases.append(
        ("routing", lambda: _routed(incoming), lambda: pa.compute.binary_length(incoming.records.column("key")))
    )
    return cases


def _routed(incoming: IncomingRecords) -> object:
    return route(
        incoming, partition_count=8, route_partition=None, sticky=0, now_ms=1_763_683_200_000, log_append_time=False
    )


def answers(records: int, value_bytes: int) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Return the name of each case, writing, and its floor: msgspec writing the same strings, or a copy of the table."""
    texts = log_lines(records, value_bytes, 2)
    cases: list[tuple[str, Callable[[], object], Callable[[], object]]] = []
    escaped = [json.dumps({"id": index, "text": text}) for index, text in enumerate(texts)]
    encode = msgspec.json.Encoder().encode
    table = _stored([text.encode() for text in texts])
    for name, stored, strings in (("text", table, texts), ("escaped", _stored([t.encode() for t in escaped]), escaped)):
        cases.append(
            (
                f"JSON, {name}",
                lambda stored=stored: b"".join(json_pieces("bench", 3, stored, POSITIONS, topic_id="id")),  # type: ignore[misc]
                lambda strings=strings: encode(strings),  # type: ignore[misc]
            )
        )
    binary = _stored([bytes([0xFF]) + text.encode()[1:] for text in texts])
    cases.append(
        (
            "JSON, not UTF-8",
            lambda: b"".join(json_pieces("bench", 3, binary, POSITIONS, topic_id="id")),
            lambda: encode(texts),
        )
    )
    cases.append(("NDJSON, text", lambda: b"".join(ndjson_pieces(table)), lambda: encode(texts)))
    cases.append(("events, text", lambda: b"".join(EventWriter().records(table)), lambda: encode(texts)))
    data = b"".join(text.encode() for text in texts)
    cases.append(("Arrow", lambda: b"".join(arrow_pieces(table)), lambda: bytearray(data)))
    return cases


def _stored(values: list[bytes]) -> pa.Table:
    count = len(values)
    return pa.Table.from_arrays(
        [
            pa.array(np.full(count, 3, dtype=np.int32)),
            pa.array(FIRST_OFFSET + np.arange(count)),
            pa.array((FIRST_MS + np.arange(count)) * 1000).view(BATCH_SCHEMA.field("timestamp").type),
            pa.array([f"key-{index % 5000}".encode() for index in range(count)], pa.binary()),
            pa.array(values, pa.binary()),
            pa.nulls(count, BATCH_SCHEMA.field("headers").type),
        ],
        schema=RECORD_SCHEMA,
    )


def measure(_options: Options) -> Iterator[Table]:
    """Yield two tables: decoding, and answers."""
    for title, cases in (("Decoding request bodies", decoding), ("Writing answers", answers)):
        table = Table(title, ["what", "records", "value", "µs CPU a record", "M records/s", "floor, µs"])
        for records, value_bytes in ((1, 100), (1_000, 100), (1_000, 1_000), (10_000, 100)):
            for name, run, floor in cases(records, value_bytes):
                cost, least = (_cpu_us(each) / records for each in (run, floor))
                table.add(name, f"{records:,}", f"{value_bytes} B", f"{cost:.3f}", f"{1 / cost:.2f}", f"{least:.3f}")
        yield table


def _cpu_us(run: Callable[[], object]) -> float:
    """Measure the microseconds of CPU of one call."""
    run()
    once_us = best_cpu_us(repeated(run), calls=1, rounds=1)
    return best_cpu_us(repeated(run), calls=max(1, int(ROUND_SECONDS * 1e6 / max(once_us, 1))), rounds=ROUNDS)
