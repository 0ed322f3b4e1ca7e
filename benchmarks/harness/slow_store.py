"""A proxy in front of a store on this machine, whose answers come as late as an object store's in a region.

It runs in a process of its own. The answer to each PUT and POST waits ``PUT_SECONDS``, that to any other request ``GET_SECONDS``.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvloop

from benchmarks.harness.processes import await_port, free_port
from benchmarks.harness.pump import pump

GET_SECONDS: Final = 0.02
PUT_SECONDS: Final = 0.04
_REQUEST: Final = re.compile(rb"(GET|HEAD|LIST|DELETE|PUT|POST) /")
_CONTINUE: Final = b"HTTP/1.1 100"


class _Exchange:
    """The requests and answers of one connection: one at a time, as HTTP/1.1 clients of stores send them."""

    def __init__(self) -> None:
        self._late_seconds = 0.0

    async def asked(self, piece: bytes) -> None:
        """Take note of a piece that the client sent: a request's head, or more of its body."""
        if found := _REQUEST.match(piece):
            self._late_seconds = PUT_SECONDS if found.group(1) in {b"PUT", b"POST"} else GET_SECONDS

    async def answered(self, piece: bytes) -> None:
        """Wait before the first piece of an answer is passed on. "100 Continue" is none."""
        if self._late_seconds and not piece.startswith(_CONTINUE):
            late, self._late_seconds = self._late_seconds, 0.0
            await asyncio.sleep(late)


@contextmanager
def slowed(target: int) -> Iterator[int]:
    """Run a proxy to this port, and give its own port."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=_process, args=(port, target))
    process.start()
    try:
        await_port(port)
        yield port
    finally:
        process.terminate()
        process.join()


def _process(port: int, target: int) -> None:
    uvloop.run(serve(port, target))


async def serve(port: int, target: int) -> None:
    """Pass connections on until this is cancelled."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        exchange = _Exchange()
        await asyncio.gather(pump(reader, onward, exchange.asked), pump(onward_reader, writer, exchange.answered))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    await server.serve_forever()
