"""Connections that are slow, silent or too many, on a gateway with a stub engine."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

import pytest

from tests.support.http_shell import everything, in_flight, problem_of
from tests.support.stub_process import StubProcess
from tests.support.waiting import eventually

MEBIBYTE = 1024 * 1024
CHUNKED = b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_body_that_stops_coming_is_refused(stub: StubProcess) -> None:
    """Half a body and silence: 400 after the limit, not a connection for ever."""
    with stub.connect() as connection:
        connection.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        assert problem_of(everything(connection)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_a_body_in_drops_is_refused(stub: StubProcess, framing: bytes) -> None:
    """A body that never pauses for long and never ends holds its place no longer than one that stops."""
    piece = b"y" if framing.startswith(b"Content") else b"1\r\ny\r\n"
    with stub.connect() as connection:
        connection.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\n" + framing + b"\r\n\r\n")
        connection.settimeout(0.2)
        answer = b""
        for _ in range(60):
            connection.sendall(piece)
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65536)
                break
    assert problem_of(answer) == (400, "INVALID_REQUEST")
    assert b"bytes a second" in answer


@pytest.mark.parametrize("body_bytes", [1, 100])
def test_chunks_however_small_are_a_body(stub: StubProcess, body_bytes: int) -> None:
    """The bound on framing does not meet a client that sends in small chunks."""
    chunks = (b"%x\r\n" % body_bytes + b"z" * body_bytes + b"\r\n") * 100_000
    with stub.connect() as connection:
        connection.sendall(CHUNKED.replace(b"Host: h", b"Host: h\r\nConnection: close") + chunks + b"0\r\nX: y\r\n\r\n")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"z") >= 100_000 * body_bytes


def test_an_empty_line_keeps_no_connection(stub: StubProcess) -> None:
    """After an answer a connection is idle until a request comes; a line break is none."""
    with stub.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"alive"}'):
            answer += connection.recv(65536)
        connection.sendall(b"\r\n")
        assert everything(connection) == b""


def test_half_a_request_behind_another_one_ends_after_its_answer(stub: StubProcess) -> None:
    """The time for a head does not run out on the answer that the client waits for."""
    with stub.connect() as waiting:
        waiting.sendall(b"GET /v1/large?size=33554432 HTTP/1.1\r\nHost: h\r\n\r\nGET /healthz HT")
        received = 0
        while chunk := waiting.recv(1024 * 1024):
            received += len(chunk)
            if received < 4 * MEBIBYTE:
                time.sleep(0.7)
    assert received > 32 * MEBIBYTE


def test_requests_that_wait_behind_a_slow_answer_are_not_late(stub: StubProcess) -> None:
    """While the gateway itself does not read on, the time for a head does not run."""
    with stub.connect() as connection:
        connection.sendall(
            b"GET /v1/large?size=33554432 HTTP/1.1\r\nHost: h\r\n\r\nGET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /hea"
        )
        time.sleep(0.3)
        connection.sendall(b"lthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        received, tail = 0, b""
        while chunk := connection.recv(1024 * 1024):
            received += len(chunk)
            tail = (tail + chunk)[-2000:]
            if received < 5 * MEBIBYTE:
                time.sleep(0.7)
    assert tail.count(b'{"status":"alive"}') == 2


def test_silent_connections_are_closed(stub: StubProcess) -> None:
    """Neither saying nothing nor half a head keeps a connection."""
    with stub.connect() as silent, stub.connect() as halfway:
        halfway.sendall(b"GET /healthz HTTP/1.1\r\nHos")
        assert (everything(silent), everything(halfway)) == (b"", b"")


def test_a_head_in_drops_is_closed(stub: StubProcess) -> None:
    """A header that comes a byte at a time is given the same time as one that does not come."""
    with stub.connect() as connection, contextlib.suppress(ConnectionError):
        for byte in b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 20:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
        pytest.fail("the connection was kept")


def test_a_client_that_never_reads_is_cut_off(stub: StubProcess) -> None:
    """An answer that its client does not take does not hold its memory for ever; others are served meanwhile."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", stub.port))
    with connection:
        connection.sendall(b"GET /v1/large?size=33554432 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: in_flight(stub) == 2, 5)
        assert stub.get("/healthz").status_code == 200
        assert eventually(lambda: in_flight(stub) == 1)
    assert eventually(lambda: "does not read its answer" in stub.log(), 5)


def test_a_slow_reader_gets_everything(stub: StubProcess) -> None:
    """A client that reads slowly but steadily is not cut off, and gets every byte."""
    size = 12 * MEBIBYTE
    with stub.connect() as connection:
        connection.sendall(b"GET /v1/large?size=%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" % size)
        received = 0
        while chunk := connection.recv(1024 * 1024):
            received += len(chunk)
            time.sleep(0.02)
    assert received > size


def test_connections_past_the_limit_are_told(stub: StubProcess) -> None:
    """The 51st connection gets 503 OVERLOADED; when others end, new ones are served."""
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(stub.connect())
            connection.sendall(b"GET /v1/wait HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: stub.connection_count() >= 50)
        answer = stub.get("/healthz")
        assert (answer.status_code, answer.json()["error_code"]) == (503, "OVERLOADED")
        assert answer.headers["retry-after"] == "1"
    assert eventually(lambda: stub.get("/healthz").status_code == 200)


def test_an_address_has_its_share_of_connections(start: Callable[..., StubProcess]) -> None:
    """One client's connections leave room for others'; those past its share are told, and served when it has ended some."""
    stub = start("--connections-per-address-max", "5")
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(stub.connect())
            connection.sendall(b"GET /v1/wait HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: stub.connection_count() >= 5)
        answer = stub.get("/healthz")
        assert (answer.status_code, answer.json()["error_code"]) == (503, "OVERLOADED")
        assert "from this address" in answer.json()["detail"]
        for _ in range(50):
            stack.enter_context(stub.connect())
        assert eventually(lambda: 5 <= stub.connection_count() <= 5 + 32)
    assert eventually(lambda: stub.get("/healthz").status_code == 200)
