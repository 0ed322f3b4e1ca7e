"""The proxy that makes a store on this machine as slow as one in a region."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.harness.processes import free_port
from benchmarks.harness.slow_store import GET_SECONDS, PUT_SECONDS, serve

PIECE = b"x" * 1000
PIECES = 100


@asynccontextmanager
async def slow_server() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection through the proxy to a server that answers in pieces, and says "100 Continue" to a PUT."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readline():
            if head.startswith(b"PUT"):
                writer.write(b"HTTP/1.1 100 Continue\r\n")
                await reader.readexactly(len(PIECE))
            writer.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(PIECES):
                await writer.drain()
                await asyncio.sleep(0.001)
                writer.write(PIECE)
        writer.close()

    target = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = free_port()
    proxy = asyncio.create_task(serve(port, target.sockets[0].getsockname()[1]))
    while True:
        await asyncio.sleep(0.005)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            continue
        break
    try:
        yield reader, writer
    finally:
        writer.close()
        await asyncio.sleep(0.02)
        proxy.cancel()
        await asyncio.gather(proxy, return_exceptions=True)
        target.close()


async def test_each_answer_is_late_once() -> None:
    """A GET's and a PUT's by their own times, again and again on one connection, however many pieces an answer has."""
    async with slow_server() as (reader, writer):
        for _ in range(2):
            for verb, late in ((b"GET", GET_SECONDS), (b"PUT", PUT_SECONDS)):
                started = time.monotonic()
                writer.write(verb + b" /key HTTP/1.1\n")
                if verb == b"PUT":
                    assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
                    started = time.monotonic()
                    writer.write(PIECE)
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
                assert time.monotonic() - started >= late
                await reader.readexactly(PIECES * len(PIECE))
                assert time.monotonic() - started < PIECES * late / 2
