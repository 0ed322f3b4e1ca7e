"""HTTP/1.1 connections to other gateways: kept alive, bounded in number, answers streamed with back pressure.

The error tells what a failure means: ``PeerUnreachable`` is raised before a byte was sent, ``PeerAnswerLost`` after that.
httptools parses answers, and the body is handed on as it comes. While its reader is slow the connection is not read. The rest of
an answer (head, chunk framing, trailers) is bounded: a peer may be faulty, or no gateway. Absent on purpose: redirects, cookies,
proxies, decompression, retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httptools

from gateway.network.certificate import PeerTrust

CONNECT_MS_MAX: Final = 1_000
"""Time to connect. A live gateway accepts in milliseconds; after a longer wait this gateway serves the request itself."""
IDLE_MS_MAX: Final = 3_000
"""Idle time after which a connection is not used again: if the peer is just closing it, the request would be in doubt."""
UNREAD_BYTES_MAX: Final = 256 * 1024
"""Bytes of an answer received and not yet handed on, at which reading pauses."""
HEAD_BYTES_MAX: Final = 64 * 1024
"""Bytes received without one of the body: the head, a chunk's extensions, the trailers. A gateway sends some 500."""
HEADERS_MAX: Final = 100
"""Number of headers of an answer. A gateway sends about ten."""
LOOK_MS: Final = 500
"""Interval at which a wait for an answer asks whether it goes on."""
HEARD_MS_MAX: Final = 60_000
"""Time after which it is forgotten when a peer was last heard of."""

KeepsWaiting = Callable[[], Awaitable[bool]]
"""Function that returns whether a wait for an answer goes on."""
Headers = list[tuple[bytes, bytes]]


class PeerUnreachable(Exception):
    """The request could not be sent: nothing was."""


class PeerBusy(PeerUnreachable):
    """The peer is well, but the maximum number of requests is under way to it."""


class PeerAnswerLost(Exception):
    """The peer may have read and done the request; its answer did not come, or not whole."""


class PeerConnection(asyncio.Protocol):
    """One connection, one exchange at a time: ``begin``, ``read_head``, then ``read_chunk`` until it is empty."""

    def __init__(self, heard: Callable[[], None]) -> None:
        """``heard`` is called at each sign of life of the peer."""
        self._heard = heard
        self.idle_since_ms = 0
        self.status = 0
        self.headers: Headers = []
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._unread = bytearray()
        self._bodiless_bytes = 0
        self._has_head = False
        self._complete = False
        self._keeps_alive = False
        """Whether the answer leaves the connection open. The parser knows it only while it is at the answer's end."""
        self._changed = asyncio.Event()

    def begin(self, request: bytes, body: bytes) -> None:
        """Send a whole request."""
        assert self._transport is not None
        self.status, self.headers = 0, []
        self._unread.clear()
        self._bodiless_bytes = 0
        self._has_head = self._complete = False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)
        if body:
            self._transport.write(body)

    async def read_head(self, goes_on: KeepsWaiting) -> None:
        """Wait for ``status`` and ``headers``. Raises ``PeerAnswerLost``."""
        while not self._has_head:
            await self._more(goes_on)

    async def read_chunk(self, goes_on: KeepsWaiting) -> bytes:
        """Return the next piece of the body; empty at its end. Raises ``PeerAnswerLost`` when it is cut short."""
        while not self._unread:
            if self._complete:
                return b""
            await self._more(goes_on)
        piece = bytes(self._unread)
        self._unread.clear()
        if self._transport is not None:
            self._transport.resume_reading()
        return piece

    @property
    def is_reusable(self) -> bool:
        """Whether the exchange is over in both directions and the connection stays open."""
        return (
            self.is_open
            and self._complete
            and self._keeps_alive
            and not self._unread
            and self._transport is not None
            and self._transport.get_write_buffer_size() == 0
        )

    def close(self) -> None:
        """Cut the connection, whatever it does."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    async def _more(self, goes_on: KeepsWaiting) -> None:
        if not self.is_open:
            raise PeerAnswerLost("the connection ended")
        self._changed.clear()
        try:
            async with asyncio.timeout(LOOK_MS / 1000):
                await self._changed.wait()
        except TimeoutError:
            if not await goes_on() and not self._changed.is_set():
                raise PeerAnswerLost("the gateway does not answer") from None

    # Events of the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection can be used."""
        # uvloop's transports have asyncio's methods but not its class.
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """Take bytes of the answer; unsolicited bytes end the connection."""
        self._heard()
        if self._parser is None or self._complete:
            self.close()
            return
        try:
            # In pieces, since the parser keeps a header until it is whole.
            for start in range(0, len(data), HEAD_BYTES_MAX):
                piece = data[start : start + HEAD_BYTES_MAX]
                self._bodiless_bytes += len(piece)
                self._parser.feed_data(piece)
                if self._bodiless_bytes > HEAD_BYTES_MAX:
                    self.close()
                    break
        except httptools.HttpParserError:
            self.close()
        self._changed.set()
        if len(self._unread) > UNREAD_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nothing more will come."""
        if self.is_open and (exc is None or isinstance(exc, ConnectionResetError)):
            self._heard()
        self.is_open = False
        self._changed.set()

    # Events of the parser

    def on_message_begin(self) -> None:
        """Begin an answer; a second one is an error."""
        if self._has_head:
            raise ValueError("more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header of the answer; trailers are dropped."""
        if self._has_head:
            return
        if len(self.headers) == HEADERS_MAX:
            raise ValueError("too many headers")
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            raise ValueError("no gateway sends an interim answer")
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the answer's body."""
        self._unread += body
        self._bodiless_bytes = 0

    def on_message_complete(self) -> None:
        """Note that the answer is complete."""
        self._complete = True
        self._keeps_alive = bool(self._parser.should_keep_alive())


class PeerConnections:
    """Connections to all peers, at most ``in_use_max`` to each: beyond it requests are served where they arrived.

    Used on the event loop only.
    """

    def __init__(self, in_use_max: int, trust: PeerTrust | None = None) -> None:
        self._in_use_max = in_use_max
        self._idle: dict[str, list[PeerConnection]] = {}
        self._in_use: dict[str, int] = {}
        self._heard_ms: dict[str, int] = {}
        self.trust = trust or PeerTrust()

    def silent_ms(self, url: str) -> int:
        """Return for how long nothing was heard of the peer at ``url``."""
        return _now_ms() - self._heard_ms.get(url, 0)

    async def take(self, url: str, *, is_probe: bool = False) -> PeerConnection:
        """Return an unused connection to ``url``, for a probe even above the bound; ``give_back`` it. Raises
        ``PeerUnreachable``."""
        if self._in_use.get(url, 0) >= self._in_use_max and not is_probe:
            raise PeerBusy(f"{self._in_use_max} requests are under way to {url}")
        oldest_ms = _now_ms() - IDLE_MS_MAX
        idle = self._idle.get(url, [])
        while idle:
            connection = idle.pop()
            if connection.is_open and connection.idle_since_ms >= oldest_ms:
                self._in_use[url] = self._in_use.get(url, 0) + 1
                return connection
            connection.close()
        self._in_use[url] = self._in_use.get(url, 0) + 1
        try:
            return await self._connect(url)
        except BaseException:
            self._free(url)
            raise

    def give_back(self, url: str, connection: PeerConnection) -> None:
        """Take back a connection whose exchange is over, or was given up."""
        self._free(url)
        if connection.is_reusable:
            connection.idle_since_ms = _now_ms()
            self._idle.setdefault(url, []).append(connection)
        else:
            connection.close()

    def sweep(self) -> None:
        """Close connections that were idle for too long, also to peers that are gone."""
        oldest_ms = _now_ms() - IDLE_MS_MAX
        for url, connections in list(self._idle.items()):
            kept = [one for one in connections if one.is_open and one.idle_since_ms >= oldest_ms]
            for one in connections:
                if one not in kept:
                    one.close()
            if kept:
                self._idle[url] = kept
            else:
                del self._idle[url]
        if len(self._heard_ms) > len(self._idle) + len(self._in_use):
            forgotten_ms = _now_ms() - HEARD_MS_MAX
            self._heard_ms = {url: at_ms for url, at_ms in self._heard_ms.items() if at_ms > forgotten_ms}

    def close(self) -> None:
        """Close idle connections."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def _connect(self, url: str) -> PeerConnection:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        if secure and self.trust.context is None:
            await asyncio.to_thread(self.trust.look)
        try:
            async with asyncio.timeout(CONNECT_MS_MAX / 1000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    partial(PeerConnection, partial(self._hear, url)),
                    parts.hostname or "",
                    parts.port or (443 if secure else 80),
                    ssl=self.trust.context if secure else None,
                    server_hostname=self.trust.name if secure else None,
                )
        except (OSError, TimeoutError, ValueError) as error:
            raise PeerUnreachable(f"{url}: {error or type(error).__name__}") from error
        return connection

    def _hear(self, url: str) -> None:
        self._heard_ms[url] = _now_ms()

    def _free(self, url: str) -> None:
        left = self._in_use[url] - 1
        if left:
            self._in_use[url] = left
        else:
            del self._in_use[url]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
