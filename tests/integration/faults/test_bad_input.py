"""Bad input at the front door: refused whole, at no cost, and nothing of it reaches the store."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import zstandard

from tests.support.gateway_process import GatewayProcess
from tests.support.waiting import eventually

MEBIBYTE = 1024 * 1024
JSON = "application/json"
NDJSON = "application/x-ndjson"
RAW = "application/octet-stream"
ARROW = "application/vnd.apache.arrow.stream"


def arrow(**columns: Any) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def lines(count: int, bad: str) -> bytes:
    return "\n".join('{"value":"x"}' if number != count // 2 else bad for number in range(count)).encode()


def objects(directory: Path) -> dict[str, int]:
    """Every file below, and when it was last written, but for the gateway's own sign of life, also while it is written."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.parent.name not in ("gateways", ".tmp"))
    return {str(path): path.stat().st_mtime_ns for path in files}


@pytest.fixture
def untouched(gateway: GatewayProcess) -> Iterator[None]:
    """Not one object in the store, nor a file beside it, is made, changed or removed by what the test does. (What the gateway
    is just writing as its sign of life goes away by itself.)"""
    before = objects(Path(gateway.store).parent)
    yield
    eventually(lambda: objects(Path(gateway.store).parent) == before, 3)
    assert objects(Path(gateway.store).parent) == before


@pytest.fixture(scope="module")
def topic(gateway: GatewayProcess) -> str:
    """With a record in one of two partitions and small records only."""
    name: str = gateway.topic("bad-input", 2, max_message_bytes=200_000)
    assert gateway.produce(name, "good").status_code == 200
    return name


GOOD_STREAM = arrow(value=[b"x" * 100] * 1000)
REFUSED_BODIES = {
    "cut JSON": (JSON, b'{"records":[{"value":"x"}', 400),
    "JSON that is no UTF-8": (JSON, b'{"records":[{"value":"\xff"}]}', 400),
    "deep JSON": (JSON, b'{"records":[{"value":' + b"[" * 500_000, 400),
    "a bad line": (NDJSON, lines(3001, '{"value": tru}'), 400),
    "a cut line": (NDJSON, lines(3001, '{"value": "x'), 400),
    "two records on a line": (NDJSON, lines(3001, '{"value":"x"}{"value":"x"}'), 400),
    "a wrong Arrow type": (ARROW, arrow(value=[1, 2]), 400),
    "an unknown Arrow column": (ARROW, arrow(value=[b"x"], valeu=[b"x"]), 400),
    "a cut Arrow stream": (ARROW, GOOD_STREAM[: len(GOOD_STREAM) // 2], 400),
    "an Arrow stream that announces 2 GiB": (ARROW, GOOD_STREAM[:4] + b"\xff\xff\xff\x7f" + GOOD_STREAM[8:], 400),
    "an Arrow stream of rubbish": (ARROW, b"\xff\xff\xff\xff\xff\xff\xff\x7f" * 100, 400),
    "a record too large behind good ones": (NDJSON, lines(11, json.dumps({"value": "x" * 200_001})), 413),
    "a partition that is not": (NDJSON, lines(11, '{"value":"x","partition":2}'), 400),
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(("content_type", "body", "status"), REFUSED_BODIES.values(), ids=REFUSED_BODIES)
def test_bad_bodies_append_nothing(
    gateway: GatewayProcess, topic: str, content_type: str, body: bytes, status: int
) -> None:
    """G8: a refusal that promises that nothing happened, though most of the body was good."""
    answer = gateway.http.post(f"/v1/topics/{topic}/records", content=body, headers={"content-type": content_type})
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert (problem["retryable"], problem["may_have_happened"]) == (False, False)
    assert gateway.read(topic) == [(0, "good")]
    assert gateway.read(topic, 1) == []


def test_a_bad_line_is_named(gateway: GatewayProcess, topic: str) -> None:
    """The line's number from 1, and the column in it."""
    answer = gateway.http.post(
        f"/v1/topics/{topic}/records", content=lines(3001, '{"value": tru}'), headers={"content-type": NDJSON}
    )
    (error,) = answer.json()["errors"]
    assert error["where"] == "line 1501"
    assert "column 1" in error["what"]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("offset=abc", 400),
        ("offset=", 400),
        ("offset=1e3", 400),
        ("offset=-1", 400),
        ("offset=0&offset=0", 400),
        ("timestamp=-1", 400),
        ("offset=2", 416),
        ("offset=4611686018427387904", 416),
        ("offset=18446744073709551616", 400),
    ],
)
def test_offsets_that_are_not(gateway: GatewayProcess, topic: str, query: str, status: int) -> None:
    """No number, negative, beyond what an offset can be: 400; beyond the end: 416."""
    answer = gateway.http.get(f"/v1/topics/{topic}/partitions/0/records?{query}")
    assert answer.status_code == status, answer.text[:300]
    assert answer.json()["may_have_happened"] is False


def test_keys_that_are_no_text(gateway: GatewayProcess) -> None:
    """Every byte comes back as it was sent, by ``key_base64``, whatever the form; equal keys meet in one partition."""
    topic = gateway.topic("binary-keys", 16)
    key = bytes(range(256))
    text = base64.b64encode(key).decode()
    path = f"/v1/topics/{topic}/records"
    answers = [
        gateway.http.post(path, json={"records": [{"key_base64": text, "value": "x"}]}),
        gateway.http.post(path, content=arrow(key=[key], value=[b"x"]), headers={"content-type": ARROW}),
        gateway.http.post(path, params={"key_base64": text}, content=b"x", headers={"content-type": RAW}),
    ]
    (partition,) = {answer.json()["partitions"][0]["partition"] for answer in answers}
    records = gateway.fetch(topic, partition).json()["records"]
    assert [(record["key_base64"], "key" in record) for record in records] == [(text, False)] * 3
    table = pa.ipc.open_stream(
        gateway.http.get(
            f"/v1/topics/{topic}/partitions/{partition}/records?offset=0", headers={"accept": ARROW}
        ).content
    ).read_all()
    assert table.column("key").to_pylist() == [key] * 3


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_bombs_cost_no_memory(gateway: GatewayProcess, topic: str, encoding: str) -> None:
    """A gigabyte of zeros in a small body, eight at once: 413 each, and the gateway never holds more than the limit of each."""
    if encoding == "gzip":
        one = gzip.compress(bytes(64 * MEBIBYTE), 6)
        bomb = one * 16  # gzip's members follow each other
    else:
        bomb = zstandard.ZstdCompressor().compress(bytes(1024 * MEBIBYTE))
    before, statuses = gateway.reset_peak(), []

    def send() -> None:
        with httpx.Client(base_url=gateway.url, timeout=60, trust_env=False) as client:
            headers = {"content-type": RAW, "content-encoding": encoding}
            statuses.append(client.post(f"/v1/topics/{topic}/records", content=bomb, headers=headers).status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Eight at once may be more than the gateway takes in at a time; it says so.
    assert set(statuses) <= {413, 503}
    assert 413 in statuses
    assert gateway.peak_bytes() - before < 160 * MEBIBYTE


@pytest.mark.usefixtures("untouched")
def test_a_gigabyte_sent_slowly_costs_no_memory(gateway: GatewayProcess, topic: str) -> None:
    """In chunks, without a length, drop by drop at first: refused at the limit, and the rest is not held."""
    before = gateway.reset_peak()
    piece = b"100000\r\n" + b"z" * MEBIBYTE + b"\r\n"
    sent = 0
    with gateway.connect() as connection:
        head = f"POST /v1/topics/{topic}/records HTTP/1.1\r\nHost: h\r\nContent-Type: {RAW}\r\n"
        connection.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        for number in range(1024):
            try:
                connection.sendall(piece)
            except OSError:
                break
            sent += MEBIBYTE
            time.sleep(0.03 if number < 40 else 0)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"limit_bytes":16777216' in answer
    assert sent >= 16 * MEBIBYTE
    assert gateway.peak_bytes() - before < 64 * MEBIBYTE
    assert eventually(lambda: gateway.metric("tidelog_request_memory_bytes") == 0)


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fcanary",
        "%2e%2e%2f%2e%2e%2fcanary",
        "../../canary",
        "..%5c..%5ccanary",
        "%2fetc%2fpasswd",
        "..%252fcanary",
        "bad-input%2f..%2f..%2f..%2fcanary",
        "bad-input/../../../canary",
        ".",
        "..",
        "%00",
        "a%00b",
        "%ff%fe",
        "_delta_log%2f..",
    ],
)
def test_topic_names_are_no_paths(gateway: GatewayProcess, topic: str, name: str) -> None:
    """Whatever a name in a path looks like: refused, with nothing read, made or removed outside the topic it names."""
    canary = Path(gateway.store).parent / "canary"
    if not canary.exists():
        canary.mkdir()
    record = b'{"records":[{"value":"x"}]}'
    for method, path, body in (
        ("GET", f"/v1/topics/{name}", b""),
        ("DELETE", f"/v1/topics/{name}", b""),
        ("PATCH", f"/v1/topics/{name}", b'{"partition_count":3}'),
        ("POST", f"/v1/topics/{name}/records", record),
        ("POST", f"/v1/topics/{name}/partitions/0/records", record),
        ("GET", f"/v1/topics/{name}/partitions/0/records?offset=0", b""),
        ("GET", f"/v1/topics/{topic}/partitions/{name}/records?offset=0", b""),
    ):
        with gateway.connect() as connection:
            head = f"{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n"
            connection.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)
            status = int(connection.makefile("rb").readline().split()[1])
        assert status in {400, 404, 405}, (method, path)
    for plain in ("../canary", "/etc", "..\\canary", "\x00", "a/../../b"):
        answer = gateway.http.post("/v1/topics", json={"name": plain})
        assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_TOPIC_NAME")


@pytest.mark.usefixtures("untouched")
def test_ten_thousand_headers(gateway: GatewayProcess, topic: str) -> None:
    """400, though the record with them is good; the next request is served."""
    body = b'{"records":[{"value":"x"}]}'
    headers = b"".join(b"x-%d: y\r\n" % number for number in range(10_000))
    with gateway.connect() as connection:
        head = f"POST /v1/topics/{topic}/records HTTP/1.1\r\nHost: h\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(head.encode() + headers + b"\r\n" + body)
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 400 ")
    assert gateway.read(topic) == [(0, "good")]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("chunked", [False, True])
def test_clients_that_leave_in_the_middle_of_their_body(gateway: GatewayProcess, topic: str, chunked: bool) -> None:
    """Nothing of a body that did not end is appended, however whole it looks; its memory comes back."""
    body = b'{"value":"half"}\n' * 10_000
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (len(body) + 1)
    sent = b"%x\r\n%b\r\n" % (len(body), body) if chunked else body
    head = f"POST /v1/topics/{topic}/records HTTP/1.1\r\nHost: h\r\nContent-Type: {NDJSON}\r\n".encode()
    connections = [gateway.connect() for _ in range(20)]
    for connection in connections:
        connection.sendall(head + length + b"\r\n\r\n" + sent)
    assert eventually(lambda: gateway.metric("tidelog_request_memory_bytes") >= 20 * len(body) * 0.9)
    for number, connection in enumerate(connections):
        if number % 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # reset
        connection.close()
    assert eventually(lambda: gateway.metric("tidelog_request_memory_bytes") == 0)
    assert gateway.read(topic) == [(0, "good")]


def test_clients_that_never_read(gateway: GatewayProcess) -> None:
    """Clients that do not read large answers are cut off; memory stays bounded, and others are served meanwhile."""
    topic = gateway.topic("unread")
    value = "x" * 500_000
    for _ in range(3):
        assert gateway.produce(topic, *([value] * 30)).status_code == 200
    silent = []
    for _ in range(40):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", gateway.port))
        path = f"/v1/topics/{topic}/partitions/0/records?offset=0&max_bytes=67108864"
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        silent.append(connection)
    gateway.reset_peak()
    for _ in range(20):
        assert gateway.http.get("/healthz").status_code == 200
        assert gateway.produce(topic, "meanwhile").status_code == 200
        time.sleep(0.05)
    try:
        assert eventually(lambda: gateway.metric("tidelog_answer_memory_bytes") == 0, 60), "answers are held for ever"
        assert gateway.peak_bytes() < 600 * MEBIBYTE
        assert eventually(lambda: "does not read its answer" in gateway.log(), 5)
    finally:
        for connection in silent:
            connection.close()
    assert gateway.fetch(topic, max_records=1).status_code == 200
