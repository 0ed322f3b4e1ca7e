"""Reader processes are there while they have work: started when they are woken, ended when they are idle."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable

from gateway.catch_up_reads.readers import Readers
from tests.support.children import children

PATIENCE_S = 30
IDLE_S = 0.5
READER = (
    "import socket, sys; control = socket.socket(fileno=int(sys.argv[1])); control.sendall(b'r');"
    "[None for _ in iter(lambda: control.recv(1), b'')]"
)
"""Says that it is ready, and ends when its socket is closed."""


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def one_reader() -> AsyncIterator[Readers]:
    """It ends when it has been idle for a moment."""
    made = Readers(1, [sys.executable, "-ISc", READER], [], idle_s=IDLE_S)
    try:
        yield made
    finally:
        await made.stop()


async def test_a_reader_runs_from_being_woken_until_it_is_idle() -> None:
    """Again and again; woken twice there is still one. Before and behind it there is no process, and none is chosen."""
    before = children()
    async with one_reader() as readers:
        for _ in range(2):
            assert readers.choose("key") is None
            readers.wake()
            readers.wake()
            await until(lambda: readers.live_count == 1)
            assert len(children() - before) == 1
            await until(lambda: readers.live_count == 0)
            await until(lambda: children() == before)


async def test_a_reader_with_a_task_is_not_idle() -> None:
    """However long that takes: a client may be slow."""
    async with one_reader() as readers:
        readers.wake()
        await until(lambda: readers.live_count == 1)
        reader = readers.choose("key")
        assert reader is not None
        reader.task_count += 1
        await asyncio.sleep(2 * IDLE_S)
        assert readers.live_count == 1
        reader.task_count -= 1
        await until(lambda: readers.live_count == 0)


async def test_the_end_of_the_gateway_ends_a_reader_that_runs() -> None:
    """For good. One that was never woken has nothing to end."""
    before = children()
    async with one_reader():
        pass
    async with one_reader() as readers:
        readers.wake()
        await until(lambda: readers.live_count == 1)
        await readers.stop()
        assert children() == before
        readers.wake()
        await asyncio.sleep(IDLE_S)
        assert readers.live_count == 0
        assert children() == before
