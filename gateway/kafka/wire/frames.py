"""One connection's bytes, cut into frames: four bytes of length, then as many bytes.

A frame is received into the memory that was reserved for it, without a copy of what is large. While no frame is asked for, at
most ``STAGED_BYTES`` are received. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable
from typing import Final

STAGED_BYTES: Final = 16 * 1024
UNSENT_BYTES_MAX: Final = 256 * 1024
"""Bytes of answers that wait in the connection before the next one waits for them."""
BYTES_PER_SECOND_MIN: Final = 500
"""Of a frame that has begun; a slower client is cut off."""
TAKEN_BYTES_MIN: Final = 64 * 1024
"""Of a waiting answer, in ``write_stall_ms``: less is too little for any client."""
LENGTH_BYTES: Final = 4
_HEAD: Final = struct.Struct(">ih")


class Ended(Exception):
    """There is no further frame: the client is gone, silent, or too slow. The text is for the log."""


class Frames(asyncio.BufferedProtocol):
    """``begun`` is called with the connection once it stands, ``over`` when it is lost."""

    def __init__(self, begun: Callable[[Frames], None], over: Callable[[Frames], None]) -> None:
        self._on_begun, self._on_over = begun, over
        self.transport: asyncio.Transport
        self._staged = bytearray(STAGED_BYTES)
        self._start = self._end = 0
        self._body: memoryview | None = None
        """What of the present frame is not there yet."""
        self._begun_s = 0.0
        self._size = 0
        """When the present frame began, and how long it is."""
        self._arrived: asyncio.Future[None] | None = None
        self._is_paused = False
        self.is_over = False
        """The client is gone, or sends no more."""
        self._can_write = asyncio.Event()
        self._can_write.set()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        self._on_begun(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """See asyncio."""
        self.is_over = True
        self._can_write.set()
        self._wake()
        self._on_over(self)

    def eof_received(self) -> bool:
        """The client sends no more; what it has sent is still given out."""
        self.is_over = True
        self._wake()
        return True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """See asyncio."""
        return memoryview(self._staged)[self._end :] if self._body is None else self._body

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio."""
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
        """See asyncio."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """See asyncio."""
        self._can_write.set()

    # The connection's side

    async def head(self, idle_ms: int) -> tuple[int, int]:
        """The length of the next frame, which ``body`` then gives, and the API key with which it begins. Raises ``Ended``."""
        if self._end - self._start < _HEAD.size:
            try:
                async with asyncio.timeout(idle_ms / 1000):
                    while self._end - self._start < _HEAD.size:
                        await self._more()
            except TimeoutError:
                raise Ended("the client was silent") from None
        size, key = _HEAD.unpack_from(self._staged, self._start)
        self._start += LENGTH_BYTES
        return size, key

    async def staged(self, size: int, stall_ms: int) -> None:
        """Return once the frame has begun in earnest: all of a small one is there, or as much as comes without being asked for.
        Raises ``Ended``."""
        wanted = min(size, STAGED_BYTES)
        if self._end - self._start >= wanted:
            return
        try:
            async with asyncio.timeout(stall_ms / 1000):
                while self._end - self._start < wanted:
                    await self._more()
        except TimeoutError:
            raise Ended("a frame does not come to its end") from None

    def is_slower_than(self, bytes_per_second: int, grace_s: float, now_s: float) -> bool:
        """Whether a frame that has begun comes more slowly, ``grace_s`` after its begin. ``now_s``: of the loop's clock."""
        if self._body is None or now_s - self._begun_s < grace_s:
            return False
        return self._size - len(self._body) < bytes_per_second * (now_s - self._begun_s)

    async def body(self, size: int, stall_ms: int) -> memoryview:
        """The frame's bytes, read-only. Raises ``Ended``."""
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

    async def go_on(self) -> None:
        """Raise ``Ended`` when the client has gone, as far as this process could see it by now: it may be asking elsewhere."""
        await asyncio.sleep(0)
        if self.is_over:
            raise Ended("the client is gone")

    async def write(self, parts: Iterable[bytes | memoryview], stall_ms: int) -> None:
        """Send; returns once little waits. Raises ``Ended`` where the client does not read."""
        if self.transport.is_closing():
            raise Ended("the client is gone")
        self.transport.writelines(list(parts))
        while not self._can_write.is_set():
            before = self.transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(stall_ms / 1000):
                    await self._can_write.wait()
            except TimeoutError:
                if before - self.transport.get_write_buffer_size() < TAKEN_BYTES_MIN:
                    self.transport.abort()
                    raise Ended("the client does not read its answer") from None
        if self.transport.is_closing():
            raise Ended("the client is gone")

    async def _filled(self, stall_ms: int) -> None:
        while self._body:
            before = len(self._body)
            try:
                async with asyncio.timeout(stall_ms / 1000):
                    while self._body:
                        await self._more()
            except TimeoutError:
                if before - len(self._body) < BYTES_PER_SECOND_MIN * stall_ms // 1000:
                    raise Ended("a frame does not come to its end") from None

    async def _more(self) -> None:
        """Wait for further bytes. Raises ``Ended``."""
        if self.is_over:
            raise Ended("the client is gone")
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
        """Move what is staged to the front."""
        if self._start:
            left = self._end - self._start
            self._staged[:left] = self._staged[self._start : self._end]
            self._start, self._end = 0, left

    def _pause(self) -> None:
        if not self._is_paused and not self.is_over:
            self._is_paused = True
            self.transport.pause_reading()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
