"""The bytes of one connection, split into frames: a length of four bytes, then as many bytes.

A large frame is received directly into its reserved memory, without a copy. While no frame is requested, at most ``STAGED_BYTES``
are received. Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Final

STAGED_BYTES: Final = 16 * 1024
UNSENT_BYTES_MAX: Final = 256 * 1024
"""Bytes of answers buffered in the connection above which the next answer waits."""
BYTES_PER_SECOND_MIN: Final = 500
"""Least speed at which a frame must arrive; a slower client is disconnected."""
STALL_READ_BYTES_MIN: Final = 64 * 1024
"""Bytes of a pending answer that a client must read within ``write_stall_ms``: any client can read more."""
LENGTH_BYTES: Final = 4
_HEAD: Final = struct.Struct(">ih")


class ConnectionEnded(Exception):
    """No further frame comes: the client has disconnected, is silent, or too slow. The text is for the log."""


class Frames(asyncio.BufferedProtocol):
    """Reader and writer of frames. ``on_begin`` is called with the connection once it is open, ``on_end`` when it is lost."""

    def __init__(self, on_begin: Callable[[Frames], None], on_end: Callable[[Frames], None]) -> None:
        self._on_begin, self._on_end = on_begin, on_end
        self.transport: asyncio.Transport
        self._staged = bytearray(STAGED_BYTES)
        self._start = self._end = 0
        self._body: memoryview | None = None
        """The part of the present frame that is still to be received."""
        self._begun_s = 0.0
        self._size = 0
        """Loop time at which the present frame began, and the frame's size."""
        self._arrived: asyncio.Future[None] | None = None
        self._is_paused = False
        self.has_ended = False
        """Whether the client has disconnected, or has closed its sending side."""
        self._can_write = asyncio.Event()
        self._can_write.set()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the connection (asyncio)."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._on_begin(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Note the end of the connection (asyncio)."""
        self.has_ended = True
        self._can_write.set()
        self._wake()
        self._on_end(self)

    def eof_received(self) -> bool:
        """Note that the client sends no more; bytes that it has sent can still be read (asyncio)."""
        self.has_ended = True
        self._wake()
        return True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return the memory for the next bytes (asyncio)."""
        return memoryview(self._staged)[self._end :] if self._body is None else self._body

    def buffer_updated(self, nbytes: int) -> None:
        """Take in received bytes (asyncio)."""
        if self._body is not None:
            self._body = self._body[nbytes:]
            if not self._body:
                self._pause()
        else:
            self._end += nbytes
            if self._end == STAGED_BYTES:
                self._pause()
        self._wake()

    def pause_writing(self) -> None:
        """Stop writing (asyncio)."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Resume writing (asyncio)."""
        self._can_write.set()

    # the connection's side

    async def read_length(self, idle_ms: int) -> tuple[int, int]:
        """Return the length of the next frame, which ``read_body`` then returns, and its API key. Raise ``ConnectionEnded``."""
        if self._end - self._start < _HEAD.size:
            try:
                async with asyncio.timeout(idle_ms / 1000):
                    while self._end - self._start < _HEAD.size:
                        await self._more()
            except TimeoutError:
                raise ConnectionEnded("the client was silent") from None
        size, key = _HEAD.unpack_from(self._staged, self._start)
        self._start += LENGTH_BYTES
        return size, key

    async def wait_until_staged(self, size: int, stall_ms: int) -> None:
        """Wait until a small frame has arrived whole, or ``STAGED_BYTES`` of a large one. Raise ``ConnectionEnded``."""
        wanted = min(size, STAGED_BYTES)
        if self._end - self._start >= wanted:
            return
        try:
            async with asyncio.timeout(stall_ms / 1000):
                while self._end - self._start < wanted:
                    await self._more()
        except TimeoutError:
            raise ConnectionEnded("a frame does not come to its end") from None

    def is_slower_than(self, bytes_per_second: int, grace_s: float, now_s: float) -> bool:
        """Return whether the present frame arrives more slowly than that, once it began ``grace_s`` ago. ``now_s``: the loop's
        time."""
        if self._body is None or now_s - self._begun_s < grace_s:
            return False
        return self._size - len(self._body) < bytes_per_second * (now_s - self._begun_s)

    async def read_body(self, size: int, stall_ms: int) -> memoryview:
        """Return the frame's bytes, read-only. Raise ``ConnectionEnded``."""
        frame = bytearray(size)
        self._begun_s, self._size = asyncio.get_running_loop().time(), size
        staged = min(size, self._end - self._start)
        frame[:staged] = memoryview(self._staged)[self._start : self._start + staged]
        self._start += staged
        if staged < size:
            self._body = memoryview(frame)[staged:]
            try:
                await self._filled(stall_ms)
            finally:
                self._body = None
                self._start = self._end = 0
        return memoryview(frame).toreadonly()

    async def check_connected(self) -> None:
        """Raise ``ConnectionEnded`` if this process knows that the client has disconnected: it may be asking elsewhere."""
        await asyncio.sleep(0)
        if self.has_ended:
            raise ConnectionEnded("the client is gone")

    async def write(self, parts: Iterable[bytes | memoryview], stall_ms: int) -> None:
        """Send, and wait until little is buffered. Raise ``ConnectionEnded`` if the client does not read."""
        if self.transport.is_closing():
            raise ConnectionEnded("the client is gone")
        self.transport.writelines(list(parts))
        while not self._can_write.is_set():
            before = self.transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(stall_ms / 1000):
                    await self._can_write.wait()
            except TimeoutError:
                if before - self.transport.get_write_buffer_size() < STALL_READ_BYTES_MIN:
                    self.transport.abort()
                    raise ConnectionEnded("the client does not read its answer") from None
        if self.transport.is_closing():
            raise ConnectionEnded("the client is gone")

    async def _filled(self, stall_ms: int) -> None:
        while self._body:
            before = len(self._body)
            try:
                async with asyncio.timeout(stall_ms / 1000):
                    while self._body:
                        await self._more()
            except TimeoutError:
                if before - len(self._body) < BYTES_PER_SECOND_MIN * stall_ms // 1000:
                    raise ConnectionEnded("a frame does not come to its end") from None

    async def _more(self) -> None:
        """Wait for further bytes. Raise ``ConnectionEnded``."""
        if self.has_ended:
            raise ConnectionEnded("the client is gone")
        if self._body is None:
            self._make_room()
        self._arrived = asyncio.get_running_loop().create_future()
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()
        try:
            await self._arrived
        finally:
            self._arrived = None

    def _make_room(self) -> None:
        """Move the staged bytes to the front."""
        if self._start:
            left = self._end - self._start
            self._staged[:left] = self._staged[self._start : self._end]
            self._start, self._end = 0, left

    def _pause(self) -> None:
        if not self._is_paused and not self.has_ended:
            self._is_paused = True
            self.transport.pause_reading()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
