"""Bodies that go past the parser: what comes before them, behind them and in the middle of them stays what it was."""

from __future__ import annotations

import random
import socket
import time

import pytest

from tests.support.http_shell import everything, problem_of
from tests.support.stub_process import StubProcess

SIZES = (64 * 1024 - 1, 64 * 1024, 300_001, 3_000_000)
LAST = b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


def body_of(size: int) -> bytes:
    """Of every byte, so also of line breaks, and with whole requests inside."""
    made = random.Random(size).randbytes(size - len(LAST))
    return made[: size // 2] + LAST + made[size // 2 :]


def posted(body: bytes, headers: bytes = b"") -> bytes:
    return b"POST /v1/echo HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (headers, len(body), body)


def answers(connection: socket.socket) -> list[bytes]:
    """The bodies of all answers until the connection ends."""
    left, found = everything(connection), []
    while left:
        head, _, rest = left.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        (length,) = (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        found.append(rest[:length])
        left = rest[length:]
    return found


def test_each_request_sent_ahead_has_its_own_body(stub: StubProcess) -> None:
    """A body ends where its length says, whatever is in it; what follows in the same bytes is the next request."""
    bodies = [body for size in SIZES for body in (body_of(size), b"short", b"")]
    with stub.connect() as connection:
        connection.sendall(b"".join(posted(body) for body in bodies) + LAST)
        assert answers(connection) == [*bodies, b'{"status":"alive"}']


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_a_cut_at_any_place_changes_nothing(stub: StubProcess, cut: int) -> None:
    """The head, the body and the next head arrive in pieces: the same answers."""
    body = body_of(70_000)
    sent = posted(body) + posted(body) + LAST
    end = len(posted(body))
    places = [end - len(body) - cut, end - len(body) + cut, end - cut, end + cut, 2 * end - cut, len(sent)]
    with stub.connect() as connection:
        for start, stop in zip([0, *places], places, strict=False):
            connection.sendall(sent[start:stop])
            time.sleep(0.02)
        assert answers(connection) == [body, body, b'{"status":"alive"}']


def test_a_body_behind_an_offer_to_change_the_protocol_is_read(stub: StubProcess) -> None:
    """The offer is not taken up: the body and what follows are HTTP/1.1."""
    body = body_of(300_000)
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\n"
    with stub.connect() as connection:
        connection.sendall(posted(body, offer) + LAST)
        assert answers(connection) == [body, b'{"status":"alive"}']


def test_half_a_body_is_refused_when_it_stops(stub: StubProcess) -> None:
    """A long body that stops in its second half gets 400 after the limit, as a short one does."""
    with stub.connect() as connection:
        connection.sendall(posted(body_of(1_000_000))[:600_000])
        assert problem_of(everything(connection)) == (400, "INVALID_REQUEST")


def test_no_request_comes_out_of_a_body_that_nobody_reads(stub: StubProcess) -> None:
    """A refused body is dropped to its end: a request inside it is not handled."""
    with stub.connect() as connection:
        connection.sendall(posted(body_of(200_000)).replace(b"/v1/echo", b"/v1/none", 1))
        connection.shutdown(socket.SHUT_WR)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 404")
    assert answer.count(b"HTTP/1.1 ") == 1
