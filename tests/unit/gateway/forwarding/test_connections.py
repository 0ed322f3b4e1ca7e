"""A peer that is none: whatever it answers, little is held of it, and nothing of it reaches the client but an answer."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat

import pytest

from gateway.forwarding.connections import PeerAnswerLost, PeerConnection, PeerConnections, PeerUnreachable
from gateway.network.certificate import PeerTrust
from tests.support.certificate_authority import Authority

ENOUGH_BYTES = 2 * 1024 * 1024
"""Taken from a peer that never ends: sockets' buffers and a few reads."""
HEAD = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def exchange(answer: Callable[[], Iterable[bytes]]) -> AsyncIterator[tuple[PeerConnection, list[int]]]:
    """A connection on which a request was sent to a peer that answers so, and the bytes that the peer got rid of."""
    sent = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for piece in answer():
                writer.write(piece)
                await writer.drain()
                sent[0] += len(piece)
                if sent[0] > 20 * ENOUGH_BYTES:
                    break
            await reader.read()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connections = PeerConnections(in_use_max=1)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    connection = await connections.take(url)
    connection.begin(b"GET / HTTP/1.1\r\n\r\n", b"")
    try:
        yield connection, sent
    finally:
        connection.close()
        connections.give_back(url, connection)
        server.close()


def endless(first: bytes, more: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: chain([first], repeat(more))


async def goes_on() -> bool:
    return True


async def whole(connection: PeerConnection) -> None:
    await connection.read_head(goes_on)
    while await connection.read_chunk(goes_on):
        pass


ENDLESS = {
    "headers": endless(HEAD, b"a: b\r\n" * 1_000),
    "one header": endless(HEAD + b"a: ", b"b" * 65_536),
    "the reason": endless(b"HTTP/1.1 200 ", b"b" * 65_536),
    "interim answers": endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000),
    "a chunk's extension": endless(HEAD + b"transfer-encoding: chunked\r\n\r\n1;", b"b" * 65_536),
    "trailers": endless(HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"a: b\r\n" * 1_000),
}


@pytest.mark.parametrize("part", ENDLESS)
async def test_an_answer_that_is_no_body_has_an_end(part: str) -> None:
    """Head, framing and trailers that never end: the connection is cut after a few reads."""
    async with exchange(ENDLESS[part]) as (connection, sent):
        with pytest.raises(PeerAnswerLost):
            await whole(connection)
        assert not connection.is_reusable
        # Not more than the sockets' buffers behind what was read.
        assert sent[0] < 10 * ENOUGH_BYTES


async def test_a_body_is_read_as_it_is_handed_on() -> None:
    """One that never ends, in the smallest chunks there are: held is what UNREAD_BYTES_MAX says, and the peer waits."""
    answer = endless(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000)
    async with exchange(answer) as (connection, sent):
        await connection.read_head(goes_on)
        before = -1
        while sent[0] != before < 20 * ENOUGH_BYTES:
            before = sent[0]
            await asyncio.sleep(0.1)
        assert before < 20 * ENOUGH_BYTES
        assert len(await connection.read_chunk(goes_on)) < 1024 * 1024
        assert len(await connection.read_chunk(goes_on)) > 0


@pytest.mark.parametrize(("header", "is_reusable"), [(b"", True), (b"connection: close\r\n", False)])
async def test_a_connection_is_used_again_unless_the_answer_says_close(header: bytes, is_reusable: bool) -> None:
    """Opening one for each request would cost what a request costs, with TLS several times as much."""
    answer = HEAD + header + b"content-length: 1\r\n\r\nx"
    async with exchange(lambda: [answer]) as (connection, _):
        await whole(connection)
        assert connection.is_reusable is is_reusable


async def test_a_second_answer_is_none() -> None:
    """Two answers to one request: the first is whole, and the connection is not used again."""
    twice = (HEAD + b"content-length: 1\r\n\r\nx") + (b"HTTP/1.1 500 No\r\na: b\r\ncontent-length: 1\r\n\r\ny")
    async with exchange(lambda: [twice]) as (connection, _):
        await connection.read_head(goes_on)
        assert (connection.status, connection.headers) == (200, [(b"content-length", b"1")])
        assert await connection.read_chunk(goes_on) == b"x"
        assert not connection.is_reusable


@pytest.mark.parametrize(
    ("trusted", "name", "is_reached"),
    [(True, None, False), (True, "gateways", True), (True, "others", False), (False, "gateways", False)],
)
async def test_only_a_trusted_certificate_is_spoken_to(
    authority: Authority, trusted: bool, name: str | None, is_reached: bool
) -> None:
    """Over https nothing is sent to a peer whose certificate is not of a trusted authority and for the name asked for."""
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(*authority.issue("DNS:gateways"))

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=served)
    connections = PeerConnections(1, PeerTrust(authority.ca_file if trusted else None, name))
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with contextlib.nullcontext() if is_reached else pytest.raises(PeerUnreachable, match="certificate verify failed"):
        connections.give_back(url, await connections.take(url))
    server.close()
