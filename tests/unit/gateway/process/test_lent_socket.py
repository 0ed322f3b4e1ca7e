"""A connection's socket in a reader's hands: when the gateway lends it, and that it writes nothing meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from gateway.catch_up_reads.client_socket import GONE, REPORTED_BYTES, WAITS, DirectBodyWriter
from gateway.catch_up_reads.task import LENGTH
from gateway.process.gentle_transport import GentleTransport
from gateway.process.lent_socket import LentSocket

PATIENCE_S = 10


class _Protocol(asyncio.Protocol):
    lingering_since_ms: int | None = None

    def close_gently(self) -> None:
        raise AssertionError


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: the gateway's end, which does not block, and the client's."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(PATIENCE_S)
    with ours, theirs:
        yield ours, theirs


async def _connected(ours: socket.socket) -> tuple[GentleTransport, LentSocket]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_accepted_socket(_Protocol, ours)
    gentle = GentleTransport(transport, protocol, call_soon=loop.call_soon)
    return gentle, LentSocket(gentle)


async def test_what_was_written_before_goes_first_and_nothing_in_between(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """The head goes out before the socket is lent. A byte of the gateway's own ends the connection: it would garble the body."""
    ours, theirs = ends
    gentle, lent = await _connected(ours)
    gentle.write(b"HTTP/1.1 200 OK\r\n\r\n")
    lost: list[bool] = []
    assert await lent.lend(lambda: lost.append(True)) == ours.fileno()
    assert await asyncio.to_thread(theirs.recv, 100) == b"HTTP/1.1 200 OK\r\n\r\n"
    assert gentle.unsent_bytes() == 0
    lent.count_written(5, waits=True)
    assert gentle.unsent_bytes() == 1
    gentle.write(b"x")
    assert gentle.transport.is_closing()
    assert await asyncio.to_thread(theirs.recv, 100) == b""
    lent.lost()
    assert lost == [True]


async def test_the_gateway_writes_on_once_it_has_the_socket_back(ends: tuple[socket.socket, socket.socket]) -> None:
    """And the borrower is not told any more that the connection ends."""
    ours, theirs = ends
    gentle, lent = await _connected(ours)
    assert await lent.lend(pytest.fail) is not None
    lent.count_written(5, waits=True)
    lent.take_back()
    assert gentle.unsent_bytes() == 0
    gentle.write(b"0\r\n\r\n")
    assert await asyncio.to_thread(theirs.recv, 100) == b"0\r\n\r\n"
    lent.lost()
    gentle.transport.abort()


async def test_a_client_that_takes_nothing_is_not_lent(ends: tuple[socket.socket, socket.socket]) -> None:
    """What it has not taken of an earlier answer would come after the body."""
    ours, _ = ends
    gentle, lent = await _connected(ours)
    gentle.write(b"x" * (8 << 20))
    assert await lent.lend(pytest.fail) is None
    gentle.transport.abort()


def test_a_body_is_written_in_chunks_and_reported(ends: tuple[socket.socket, socket.socket]) -> None:
    """Its bytes and no others are counted. While the client takes none a report says so."""
    ours, theirs = ends
    gateway, reports = socket.socketpair()
    reports.settimeout(PATIENCE_S)
    pieces = [b"a" * 70_000] * 20 + [b"b" * (2 * REPORTED_BYTES)]
    with gateway, reports:
        writing = threading.Thread(target=DirectBodyWriter(ours, gateway).write, args=(pieces,))
        writing.start()
        seen = [LENGTH.unpack(reports.recv(4, socket.MSG_WAITALL))[0]]
        while not seen[-1] & WAITS:
            seen += LENGTH.unpack(reports.recv(4, socket.MSG_WAITALL))
        with theirs.makefile("rb") as client:
            body = b""
            for number, piece in enumerate(pieces):
                if number == 10:
                    seen += LENGTH.unpack(reports.recv(4, socket.MSG_WAITALL))
                    assert 0 < seen[-1] < WAITS, "the wait is over, and the gateway does not know"
                assert int(client.readline(), 16) == len(piece)
                body += client.read(len(piece))
                assert client.read(2) == b"\r\n"
        assert body == b"".join(pieces)
        while seen[-1] != 0:
            seen += LENGTH.unpack(reports.recv(4, socket.MSG_WAITALL))
        writing.join(PATIENCE_S)
    assert sum(report & ~WAITS for report in seen) == len(body)


@pytest.mark.parametrize("gone", ["client", "gateway"])
def test_the_end_of_either_ends_the_writing(ends: tuple[socket.socket, socket.socket], gone: str) -> None:
    """Of a client the gateway is told; a gateway that does not want the answer any more closes its socket."""
    ours, theirs = ends
    gateway, reports = socket.socketpair()
    reports.settimeout(PATIENCE_S)
    raised: list[BaseException] = []

    def write() -> None:
        try:
            DirectBodyWriter(ours, gateway).write([b"x" * (8 << 20)])
        except OSError as error:
            raised.append(error)

    with gateway, reports:
        writing = threading.Thread(target=write)
        writing.start()
        assert LENGTH.unpack(reports.recv(4, socket.MSG_WAITALL))[0] & WAITS
        (theirs if gone == "client" else reports).close()
        if gone == "client":
            assert LENGTH.unpack(reports.recv(4, socket.MSG_WAITALL)) == (GONE,)
        writing.join(PATIENCE_S)
    assert not writing.is_alive()
    assert len(raised) == 1
