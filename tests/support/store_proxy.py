"""A TCP proxy between one gateway and the store, which can delay, cut and swallow.

One thread runs an event loop of its own; the mode may be changed from any thread and holds for open connections, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from enum import Enum

CHUNK_BYTES = 64 * 1024


class Mode(Enum):
    """What the proxy does."""

    PASS = "pass"
    DELAY = "delay"
    """Every piece of data waits ``delay_seconds`` on its way."""
    CUT = "cut"
    """Open connections are closed, new ones at once."""
    STALL = "stall"
    """The answer to each ``stall_every``-th piece of data from the gateway's side waits ``delay_seconds``."""
    SWALLOW = "swallow"
    """Nothing passes, and neither side is told."""


class Proxy:
    """Listens on a free port of 127.0.0.1."""

    def __init__(self, target_port: int, delay_seconds: float = 0.5, stall_every: int = 25) -> None:
        self.port = 0
        self.mode = Mode.PASS
        self._target_port = target_port
        self._delay_seconds = delay_seconds
        self._stall_every = stall_every
        self._asked_count = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._passing = asyncio.Event()
        self._passing.set()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._listening.wait(10)

    def set(self, mode: Mode) -> None:
        """Change what it does."""
        self._loop.call_soon_threadsafe(self._set, mode)

    def close(self) -> None:
        """End it."""
        self.set(Mode.CUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        # A transport that was aborted closes its socket in a turn of its own, one that was being accepted in the next.
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    def _set(self, mode: Mode) -> None:
        self.mode = mode
        if mode is Mode.SWALLOW:
            self._passing.clear()
        else:
            self._passing.set()
        if mode is Mode.CUT:
            for writer in self._writers:
                writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode is Mode.CUT:
            writer.transport.abort()
            return
        try:
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        self._writers |= {writer, target_writer}
        try:
            stalled = asyncio.Event()
            await asyncio.gather(
                self._pump(reader, target_writer, stalled), self._pump(target_reader, writer, stalled, is_answer=True)
            )
        except asyncio.CancelledError:
            # The proxy ends; asyncio's server would report a cancelled connection as a defect.
            return
        finally:
            self._writers -= {writer, target_writer}
            writer.transport.abort()
            target_writer.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stalled: asyncio.Event,
        *,
        is_answer: bool = False,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if not is_answer and self.mode is Mode.STALL:
                    self._asked_count += 1
                    if self._asked_count % self._stall_every == 0:
                        stalled.set()
                if self.mode is Mode.DELAY or (is_answer and stalled.is_set()):
                    await asyncio.sleep(self._delay_seconds)
                    stalled.clear()
                await self._passing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
