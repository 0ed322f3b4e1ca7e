"""A gateway's requests to its store, from the notes of ``counted_gateway``."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.harness.counted_gateway import KINDS, OWNERS, ROW, VERBS
from benchmarks.harness.percentiles import Array

ROWS: Final = np.dtype(
    [
        ("start", "<f8"),
        ("end", "<f8"),
        ("table", "<u4"),
        ("version", "<u4"),
        ("bytes", "<u4"),
        ("verb", "u1"),
        ("kind", "u1"),
        ("owner", "u1"),
        ("ok", "u1"),
    ]
)
assert ROWS.itemsize == ROW.size


def read(path: Path) -> Array:
    """Return the rows so far, in the order in which the requests ended."""
    data = path.read_bytes()
    return np.frombuffer(data[: len(data) // ROW.size * ROW.size], ROWS)


def between(rows: Array, start: float, end: float) -> Array:
    """Return the requests that began in ``[start, end)``."""
    return rows[(rows["start"] >= start) & (rows["start"] < end)]


def puts(rows: Array, kind: str, *owners: str) -> Array:
    """Return the PUTs of this kind to tables of these owners, or to all tables without any."""
    chosen = (rows["verb"] == VERBS.index("PUT")) & (rows["kind"] == KINDS.index(kind))
    if owners:
        chosen &= np.isin(rows["owner"], [OWNERS.index(owner) for owner in owners])
    return rows[chosen]


def rates(rows: Array, seconds: float) -> dict[str, float]:
    """Return requests a second: PUTs together and by kind, and GET with HEAD and LIST."""
    found = {"PUT/s": np.count_nonzero(rows["verb"] == VERBS.index("PUT")) / seconds}
    found |= {f"PUT/s {kind}": len(puts(rows, kind)) / seconds for kind in KINDS}
    reads = np.isin(rows["verb"], [VERBS.index(verb) for verb in ("GET", "HEAD", "LIST")])
    return {**found, "GET/s": np.count_nonzero(reads) / seconds}


def table_of(topic: str) -> int:
    """Return the number by which rows name the topic's table."""
    return zlib.crc32(f"topics/{topic}/".encode())


def requests_for_topics(path: Path) -> int:
    """Return the number of requests so far for objects of topics."""
    return int(np.count_nonzero(read(path)["owner"] == OWNERS.index("topic")))
