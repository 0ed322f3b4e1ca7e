"""Short bodies that become much, and records that become much when they are read."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import numpy as np
import pyarrow as pa

MEBIBYTE = 1024 * 1024
BODY_BYTES = 16 * MEBIBYTE
ARROW = "application/vnd.apache.arrow.stream"
RECORDS = "/v1/topics/t/partitions/0/records"


def repeated(unit: bytes, opening: bytes, closing: bytes) -> bytes:
    return opening + b",".join([unit] * ((BODY_BYTES - 100) // (len(unit) + 1))) + closing


def dictionary_of_nothing() -> bytes:
    """Some hundred bytes that name 300,000,000 values without bytes."""
    values = pa.Array.from_buffers(pa.binary(0), 300_000_000, [None, pa.py_buffer(b"")])
    column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), values, safe=False)
    return stream(pa.RecordBatch.from_arrays([column], ["value"]))


def empty_headers(count: int) -> bytes:
    """A record with so many headers."""
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([""]))
    pairs = pa.StructArray.from_arrays([names, pa.nulls(count, pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pairs)
    return stream(pa.RecordBatch.from_arrays([pa.array([b""]), headers], ["value", "headers"]))


def empty_gzip_members() -> bytes:
    """16 MiB of compressed nothing."""
    member = gzip.compress(b"", 1, mtime=0)
    return member * (BODY_BYTES // len(member))


def stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


BODIES: dict[str, tuple[str, str, Callable[[], bytes], int]] = {
    "nested lists": ("/v1/topics", "application/json", lambda: repeated(b"[]", b'{"x":[', b"]}"), 400),
    "unknown members": ("/v1/topics", "application/json", lambda: repeated(b'"a":0', b"{", b"}"), 400),
    "numbers as records": (RECORDS, "application/json", lambda: repeated(b"0", b'{"records":[', b"]}"), 400),
    "half characters": (RECORDS, "application/json", lambda: repeated(b'"\\ud800"', b'{"records":[', b"]}"), 400),
    "records at once": (
        "/v1/records",
        "application/json",
        lambda: repeated(b"[]", b'{"topics":[{"topic":"t","records":[', b"]}]}"),
        400,
    ),
    "values without bytes": (RECORDS, ARROW, dictionary_of_nothing, 413),
    "headers without bytes": (RECORDS, ARROW, lambda: empty_headers(1_900_000), 400),
}
