"""Short bodies that become much, and records that become much when they are read: neither costs memory, nor anybody's time."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.siege import besiege
from tests.support.waiting import eventually

pytestmark = pytest.mark.processes

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


def stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read_slowly(gateway: GatewayProcess, count: int, seconds: float) -> None:
    """Ask for the partition on ``count`` connections, and read nothing of the answers."""
    connections = []
    for _ in range(count):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", gateway.port))
        connection.sendall(f"GET {RECORDS}?offset=earliest HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        connections.append(connection)
    time.sleep(seconds)
    for connection in connections:
        connection.close()


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


def test_bodies_that_become_much(tmp_path: Path, start_gateway: Callable[..., GatewayProcess]) -> None:
    """16 MiB of the smallest things that there are, a few kilobytes as sent, are refused at no cost to others."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("t")
    sent = [(path, content_type, gzip.compress(make(), 1)) for path, content_type, make, _ in BODIES.values()]

    def attack() -> None:
        for (path, content_type, body), (name, (*_, status)) in zip(sent, BODIES.items(), strict=True):
            headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
            assert gateway.http.post(path, content=body, headers=headers).status_code == status, name

    besiege(gateway, attack)


@pytest.mark.parametrize("kind", ["value", "headers"])
def test_large_records_read_slowly(
    kind: str,
    tmp_path: Path,
    start_gateway: Callable[..., GatewayProcess],
) -> None:
    """A dozen who ask for records of many times the usual size, and read nothing, hold no more memory than is theirs."""
    gateway = start_gateway(str(tmp_path / "store"), "--tail-cache-bytes-max", "0")
    gateway.topic("t", max_message_bytes=BODY_BYTES)
    body, content_type = (
        (b"\x01" * BODY_BYTES, "application/octet-stream") if kind == "value" else (empty_headers(65_536), ARROW)
    )
    for _ in range(2 if kind == "value" else 20):
        assert gateway.http.post(RECORDS, content=body, headers={"Content-Type": content_type}).status_code == 200
    besiege(gateway, lambda: read_slowly(gateway, 12, 3))
    # What they held is free again when the gateway sees them go.
    assert eventually(lambda: gateway.fetch("t", max_records=1).status_code == 200)
    (record,) = gateway.fetch("t", max_records=1).json()["records"]
    assert len(record["value"]) == (BODY_BYTES if kind == "value" else 0)
    assert len(record["headers"]) == (0 if kind == "value" else 65_536)
