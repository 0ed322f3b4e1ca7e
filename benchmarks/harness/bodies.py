"""Request bodies: records of a given size, with keys spread over the partitions; the same in every run."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from benchmarks.harness.load import request

CONTENTS: Final = ("random", "log lines", "repeating")
"""What values are made of: what zstd can't halve, what it makes a third to a sixth of, and what it makes nearly nothing of."""


ARROW: Final = "application/vnd.apache.arrow.stream"


def arrow_body(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _path(topic: str) -> str:
    return f"/v1/topics/{topic}/records"


def log_lines(count: int, value_bytes: int, seed: int) -> list[str]:
    """Return text about as redundant as log lines: words of a small vocabulary and a few random digits."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) for _ in range(200)]
    values = []
    for _ in range(count):
        text = f"{rng.randrange(10**8):08d} "
        while len(text) < value_bytes:
            text += rng.choice(words) + " "
        values.append(text[:value_bytes])
    return values


def values_of(content: str, count: int, value_bytes: int, seed: int) -> list[bytes]:
    """Return values of one of ``CONTENTS``. Random ones are any bytes."""
    if content == "random":
        rng = random.Random(seed)
        return [rng.randbytes(value_bytes) for _ in range(count)]
    if content == "repeating":
        return [(b"the same line " * (value_bytes // 14 + 1))[:value_bytes]] * count
    return [line.encode() for line in log_lines(count, value_bytes, seed)]


def _texts(content: str, count: int, value_bytes: int, seed: int) -> list[str]:
    """Return such values as text; random ones in base64, of which zstd saves a quarter."""
    values = values_of(content, count, value_bytes, seed)
    if content == "random":
        values = [base64.b64encode(value)[:value_bytes] for value in values]
    return [value.decode() for value in values]


def json_requests(
    records: int,
    value_bytes: int,
    variants: int = 8,
    topics: Sequence[str] = ("bench",),
    *,
    content: str = "log lines",
) -> list[bytes]:
    """Return requests of JSON records with keys: every variant to every topic.

    Args:
        records: in each request.
        value_bytes: the size of each value.
        variants: how many different requests a topic gets.
        topics: their names.
        content: one of ``CONTENTS``.
    """
    made = []
    for variant in range(variants):
        values = _texts(content, records, value_bytes, variant)
        body = json.dumps(
            {
                "records": [
                    {"key": f"key-{(variant * 7919 + i) % 5000}", "value": value} for i, value in enumerate(values)
                ]
            },
            separators=(",", ":"),
        )
        made += [request("POST", _path(topic), body.encode(), {"Content-Type": "application/json"}) for topic in topics]
    return made


def arrow_requests(records: int, value_bytes: int, variants: int = 4, *, content: str = "log lines") -> list[bytes]:
    """Return requests of one Arrow table each, with keys, for the topic ``bench``. ``content``: one of ``CONTENTS``."""
    made = []
    for variant in range(variants):
        table = pa.table(
            {
                "key": pa.array([f"key-{(variant * 7919 + i) % 5000}".encode() for i in range(records)], pa.binary()),
                "value": pa.array(values_of(content, records, value_bytes, variant), pa.binary()),
            }
        )
        made.append(request("POST", _path("bench"), arrow_body(table), {"Content-Type": ARROW}))
    return made
