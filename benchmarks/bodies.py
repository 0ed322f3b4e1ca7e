"""Request bodies: records of a given size, with keys spread over the partitions; the same in every run."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence

import pyarrow as pa

from benchmarks.load import request

_ALPHABET = string.ascii_letters + string.digits + " "


def _path(topic: str) -> str:
    return f"/v1/topics/{topic}/records"


def log_lines(count: int, value_bytes: int, seed: int) -> list[str]:
    """Text about as redundant as a log line: words of a small vocabulary and a few random digits."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) for _ in range(200)]
    values = []
    for _ in range(count):
        text = f"{rng.randrange(10**8):08d} "
        while len(text) < value_bytes:
            text += rng.choice(words) + " "
        values.append(text[:value_bytes])
    return values


def json_requests(records: int, value_bytes: int, variants: int = 8, topics: Sequence[str] = ("bench",)) -> list[bytes]:
    """Requests of ``records`` JSON records with keys: every variant to every topic."""
    made = []
    for variant in range(variants):
        values = log_lines(records, value_bytes, variant)
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


def arrow_requests(records: int, value_bytes: int, variants: int = 4) -> list[bytes]:
    """Requests of one Arrow table of ``records`` records with keys."""
    made = []
    for variant in range(variants):
        table = pa.table(
            {
                "key": pa.array([f"key-{(variant * 7919 + i) % 5000}".encode() for i in range(records)], pa.binary()),
                "value": pa.array([value.encode() for value in log_lines(records, value_bytes, variant)], pa.binary()),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        made.append(request("POST", _path("bench"), body, {"Content-Type": "application/vnd.apache.arrow.stream"}))
    return made
