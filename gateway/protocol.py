"""HTTP/1.1 on one connection: uvicorn's httptools protocol, with the bounds that it lacks.

1. A request's head (line and headers) has at most ``HEADERS_MAX`` fields and ``HEAD_BYTES_MAX`` bytes; beyond it is answered
   with 400, and so is anything that is not HTTP, as a problem.
2. A connection is closed when a head does not arrive within ``head_ms`` or nothing is asked for so long; when a body that a
   route waits for pauses for ``body_idle_ms``, it is refused with 400.
3. A client that takes less than ``PROGRESS_BYTES_MIN`` of a waiting answer in ``write_stall_ms`` is cut off.
4. When the answer is given before the request has arrived whole, the connection's sending side is closed and what still comes
   is dropped for a while (as long as nginx does it): closing at once would reset the connection, and the client would lose the
   answer that says why.
5. A request that offers to change the protocol is answered as if it did not.
6. Past ``connections_max`` a connection's requests get 503 ``OVERLOADED``; far past it connections are cut.

Half-closed clients are treated as gone: a long poll must notice that its client left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any, Final

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gateway.asgi.request_id import request_id_of
from gateway.problem import overloaded, problem_response, refused

HEADERS_MAX: Final = 128
"""Far above what clients and proxies send."""
HEAD_BYTES_MAX: Final = 64 * 1024
"""Request line and headers. Ids in paths and ``Tidelog-*`` headers need a few KiB at most."""
URL_BYTES_MAX: Final = 16 * 1024
PIPELINE_MAX: Final = 32
"""Requests sent ahead on one connection; each costs a few KiB before it is looked at."""
LINGER_MS: Final = 30_000
LINGER_IDLE_MS: Final = 5_000
PROGRESS_BYTES_MIN: Final = 1024 * 1024

_UPGRADE_HEADERS: Final = frozenset({b"connection", b"upgrade", b"http2-settings"})

_log = logging.getLogger("gateway.protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many connections, and how long (milliseconds) each may do nothing."""

    connections_max: int
    head_ms: int
    body_idle_ms: int
    write_stall_ms: int


class _HeadTooLarge(Exception):
    """Raised inside the parser to stop it."""


class _GentleTransport:
    """The connection's transport, but ``close`` lets the client read its answer, and what is written is counted."""

    __slots__ = (
        "_protocol",
        "get_extra_info",
        "pause_reading",
        "resume_reading",
        "set_protocol",
        "transport",
        "written_bytes",
    )

    def __init__(self, transport: asyncio.Transport, protocol: GatewayProtocol) -> None:
        self.transport = transport
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.written_bytes = 0
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        self.written_bytes += len(data)
        self.transport.write(data)

    def is_closing(self) -> bool:
        return self._protocol.lingering_since_ms is not None or self.transport.is_closing()

    def close(self) -> None:
        self._protocol.close_gently()


class GatewayProtocol(HttpToolsProtocol):
    """One connection. ``sweep`` must be called about once a second."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.lingering_since_ms: int | None = None
        self._limits = limits
        self._gentle: _GentleTransport
        self._header_count = 0
        self._head_bytes = 0
        self._in_head = False
        self._refusal = ""
        self._deaf = False
        self._waiting_since_ms: int | None = None
        """Since when the connection owes us a head, or the rest of a request that was answered already."""
        self._received_at_ms = 0
        self._progress_bytes = 0
        self._progress_at_ms = 0

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or as much of it as the limits allow."""
        self._gentle = _GentleTransport(transport, self)
        super().connection_made(self._gentle)  # type: ignore[arg-type]
        self._waiting_since_ms = self._received_at_ms = _now_ms()
        excess = len(self.connections) - self._limits.connections_max
        if excess > self._limits.connections_max:
            transport.abort()
        elif excess > 0:
            self.app = _overloaded

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless nothing of it matters any more."""
        self._received_at_ms = _now_ms()
        if self._deaf:
            return
        was_in_head = self._in_head
        self._unset_keepalive_if_required()
        self._parse(data)
        if was_in_head and self._in_head and not self._deaf:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refusal = f"The request's head is longer than {HEAD_BYTES_MAX} bytes."
                self.send_400_response(self._refusal)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.send_400_response(str(error))
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Read a request that offers another protocol (h2c, websocket) again, as the HTTP/1.1 request that it also is.

        The parser takes such a request to have no body, whatever it says of one: it would be handled without it.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("CONNECT is not supported")
            return
        kept = [(name, value) for name, value in self.headers if name not in _UPGRADE_HEADERS]
        tokens = [token.strip() for name, value in self.headers if name == b"connection" for token in value.split(b",")]
        tokens = [token for token in tokens if token.lower() in (b"close", b"keep-alive")]
        if tokens:
            kept.append((b"connection", b", ".join(tokens)))
        version = self.parser.get_http_version().encode("ascii")
        lines = [method + b" " + self.url + b" HTTP/" + version, *(name + b": " + value for name, value in kept)]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parse(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def close_gently(self) -> None:
        """Close; when the client may still be sending, only after it had the time to read the answer."""
        transport = self._gentle.transport
        if self.lingering_since_ms is not None or transport.is_closing():
            return
        unfinished = self._in_head or (self.cycle is not None and self.cycle.more_body)
        if not unfinished or not transport.can_write_eof():
            transport.close()
            return
        self._deaf = True
        self.lingering_since_ms = self._received_at_ms = _now_ms()
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        transport.write_eof()

    def sweep(self, now_ms: int) -> None:
        """End the connection if it has used up its patience."""
        transport = self._gentle.transport
        if self.lingering_since_ms is not None:
            if now_ms - self.lingering_since_ms > LINGER_MS or now_ms - self._received_at_ms > LINGER_IDLE_MS:
                transport.abort()
            return
        drained_bytes = self._gentle.written_bytes - transport.get_write_buffer_size()
        if drained_bytes == self._gentle.written_bytes or drained_bytes - self._progress_bytes >= PROGRESS_BYTES_MIN:
            self._progress_bytes = drained_bytes
            self._progress_at_ms = now_ms
        elif now_ms - self._progress_at_ms > self._limits.write_stall_ms:
            _log.warning("a client does not read its answer; its connection is cut")
            transport.abort()
        cycle = self.cycle
        if (
            cycle is not None
            and cycle.more_body
            and not (cycle.response_started or self._in_head or self.flow.read_paused)
            and now_ms - self._received_at_ms > self._limits.body_idle_ms
        ):
            self._refusal = f"The body stopped coming for {self._limits.body_idle_ms} ms."
            self.send_400_response(self._refusal)
        elif self._waiting_since_ms is not None and now_ms - self._waiting_since_ms > self._limits.head_ms:
            # Nothing was answered that the client could lose.
            transport.close()

    # What the parser finds

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._header_count = self._head_bytes = 0
        self._in_head = True
        self._waiting_since_ms = _now_ms()

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._stop(f"The request's target is longer than {URL_BYTES_MAX} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._header_count > HEADERS_MAX:
            self._stop(f"The request has more than {HEADERS_MAX} headers.")
        if self._head_bytes > HEAD_BYTES_MAX:
            self._stop(f"The request's headers are longer than {HEAD_BYTES_MAX} bytes.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there: the request can be handled."""
        if len(self.pipeline) >= PIPELINE_MAX:
            self._stop(f"More than {PIPELINE_MAX} requests are sent ahead.")
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        self._in_head = False
        self._waiting_since_ms = None

    def on_response_complete(self) -> None:
        """The answer is given, perhaps before the request's end."""
        super().on_response_complete()
        if self.cycle.more_body and self.cycle.response_complete:
            self._waiting_since_ms = _now_ms()

    def on_message_complete(self) -> None:
        """The request is there, to its end."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle.more_body = False
        self._waiting_since_ms = None

    def _stop(self, why: str) -> None:
        self._refusal = why
        raise _HeadTooLarge(why)

    # Refusals

    def send_400_response(self, msg: str) -> None:
        """Answer what can't be parsed, and nothing more on this connection."""
        self._deaf = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._in_head:
                # The broken request follows one that is being handled: that one is answered, then the connection ends.
                cycle.keep_alive = False
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self._gentle.transport.close()
                return
        scope = {"headers": self.headers or []}
        error = refused(self._refusal or "This is not an HTTP/1.1 request.")
        response = problem_response(error, request_id := request_id_of(scope))
        head = [
            b"HTTP/1.1 400 Bad Request",
            *(name + b": " + value for name, value in self.server_state.default_headers),
            *(name + b": " + value for name, value in response.raw_headers),
            b"x-request-id: " + request_id.encode("ascii"),
            b"connection: close",
        ]
        _log.warning("refused a malformed request: %s", self._refusal or msg)
        self._gentle.write(b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body))
        # What follows a broken message can't be told from its rest, so the client may still be sending.
        self._in_head = True
        self.close_gently()


async def _overloaded(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer for a connection too many."""
    request_id = request_id_of(scope)
    headers = {"connection": "close", "x-request-id": request_id}
    error = overloaded("The gateway has as many connections as it may.")
    await problem_response(error, request_id, headers=headers)(scope, _receive, send)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
