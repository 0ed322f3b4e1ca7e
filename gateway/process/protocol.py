"""HTTP/1.1 on one connection: uvicorn's httptools protocol with the bounds that it lacks.

1. A request's head (line and headers) has at most ``HEADERS_MAX`` fields and ``HEAD_BYTES_MAX`` bytes, one ``Host``, and says
   HTTP/1.1 or 1.0. Any other input, HTTP or not, is answered with 400, as a problem.
2. A connection is closed when a head does not arrive within ``head_ms``, or no request comes for ``idle_ms``. A body that a route
   waits for is refused with 400 if it pauses for ``body_idle_ms``, or is slower than ``BODY_BYTES_PER_SECOND_MIN`` for that time.
3. A client that reads a pending answer too slowly is disconnected (``AnswerPace``).
4. If the answer is sent before the request has arrived whole, the connection's sending side is closed, and further input is
   discarded for a while (as long as nginx does it). Closing immediately would reset the connection, and the client would lose
   the answer that says why.
5. A request that offers to change the protocol is answered as if it did not.
6. Beyond ``connections_max``, and beyond an address's share of it, a connection's requests get 503 ``OVERLOADED``. Far beyond
   it, connections are aborted.
7. The framing of a chunked body is discarded, trailers included: a proxy that checked the head has not seen them. More than
   ``FRAMING_BYTES_MAX`` of framing is refused with 400.
8. A long body of known length goes to the route directly, bypassing the parser, which would copy it three times. Its end is
   found by counting, and the next request gets a new parser.

Half-closed clients are treated as disconnected: a long poll must notice that its client left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any, Final

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from gateway.asgi.throttling import CONNECTION
from gateway.catch_up_reads.client_socket import CLIENT_SOCKET
from gateway.http.disconnect import IS_GONE
from gateway.network.client_addresses import address_key
from gateway.process.answer_pace import AnswerPace
from gateway.process.connection_limits import TOLD_MAX, ConnectionLimits, refuse_requests
from gateway.process.gentle_transport import GentleTransport
from gateway.process.lent_socket import LentSocket
from gateway.process.malformed import malformed_answer
from gateway.process.request_head import fault_of, head_without_upgrade, long_body_bytes
from gateway.quotas.quotas import Connection

HEADERS_MAX: Final = 128
"""Far more than clients and proxies send."""
HEAD_BYTES_MAX: Final = 64 * 1024
"""Most bytes of request line and headers. Ids in paths and ``Tidelog-*`` headers need a few KiB at most."""
URL_BYTES_MAX: Final = 16 * 1024
PIPELINE_MAX: Final = 32
"""Most pipelined requests on one connection; each costs a few KiB before it is handled."""
SLICE_BYTES: Final = 32 * 1024
"""Size of the parser's input: framing and body within one input are not told apart."""
FRAMING_BYTES_MAX: Final = 32 * 1024
"""Most bytes of chunk extensions and trailers in one body."""
_FRAMING_PER_BODY_BYTE: Final = 8
"""A chunk of one byte has five bytes of framing; these count as body."""
BODY_BYTES_PER_SECOND_MIN: Final = 500
"""Apache's value: slower than any line in use, and fast enough that a body of 16 MiB can't be dragged out for ever."""
LINGER_MS: Final = 30_000
LINGER_IDLE_MS: Final = 5_000

_log = logging.getLogger("gateway.process.protocol")


class _BadHead(Exception):
    """Raised inside the parser to stop it."""


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
        self._gentle: GentleTransport
        self._connection = Connection()
        self._address: str | None = None
        self._header_count = self._head_bytes = self._framing_bytes = 0
        self._left_bytes = 0
        """Bytes still to come of a long body, which the parser does not see."""
        self._hosts: list[bytes] = []
        self._in_head = False
        self._refusal = ""
        self._where = ""
        self._deaf = False
        self._due_at_ms: int | None = None
        """Time by which the connection must have sent a head, or the rest of a request that is already answered."""
        self._received_at_ms = 0
        self._window_bytes = 0
        self._window_since_ms = 0
        """Start of the interval for ``BODY_BYTES_PER_SECOND_MIN``."""
        self._pace = AnswerPace(limits.write_stall_ms, _now_ms())

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or refuse it as the limits say."""
        self.begin(transport)
        self.enter(transport)

    def begin(self, transport: asyncio.Transport, carrier: asyncio.Transport | None = None) -> None:
        """Start HTTP. ``carrier``: the transport below ``transport``, if any."""
        self._gentle = GentleTransport(transport, self, carrier, call_soon=self.loop.call_soon)
        self._socket = LentSocket(self._gentle)
        super().connection_made(self._gentle)  # type: ignore[arg-type]
        self._received_at_ms = _now_ms()
        self._due_at_ms = self._received_at_ms + self._limits.head_ms

    def enter(self, transport: asyncio.Transport) -> bool:
        """Take one of the listener's slots (``leave`` releases it), or refuse as the limits say; return False if it was
        aborted."""
        self.connections.add(self)
        client = get_remote_addr(transport)
        if client is not None:
            self._address = address_key(client[0])
        excess = len(self.connections) - self._limits.connections_max
        of_address = self._limits.addresses.enter(self._address)
        if len(self.connections) > self._limits.accepted_max or of_address > TOLD_MAX:
            transport.abort()
            return False
        if excess > 0:
            self.app = partial(refuse_requests, "The gateway has reached its limit of connections.")
        elif of_address > 0:
            self.app = partial(refuse_requests, "The gateway has reached its limit of connections from this address.")
        return True

    def leave(self) -> None:
        """Release the slot. Idempotent."""
        self.connections.discard(self)
        if self._address is not None:
            self._limits.addresses.leave(self._address)
            self._address = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the connection."""
        self.leave()
        self._connection.end()
        self._socket.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the input, unless it is to be discarded."""
        self._received_at_ms = _now_ms()
        self._window_bytes += len(data)
        start = 0
        while start < len(data):
            stop = start + (self._left_bytes or SLICE_BYTES)
            piece = data if start == 0 and stop >= len(data) else memoryview(data)[start:stop]
            (self._take_past_parser if self._left_bytes else self._take)(piece)
            start = stop

    def _take_past_parser(self, piece: bytes | memoryview) -> None:
        """Pass on more of a long body, and at most its end."""
        if self._deaf:
            return
        cycle: Any = self.cycle
        if not cycle.response_complete:
            # The route does not copy its body again if that is ``bytes``.
            cycle.body = cycle.body + piece if cycle.body else bytes(piece)
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()
        self._left_bytes -= len(piece)
        if not self._left_bytes:
            self._renew_parser()
            self.on_message_complete()

    def _take(self, data: bytes | memoryview) -> None:
        if self._deaf:
            return
        was_in_head, cycle = self._in_head, self.cycle
        body_bytes = 0 if cycle is None else len(cycle.body)
        was_in_body = not was_in_head and cycle is not None and cycle.more_body
        self._parse(data)
        if was_in_head and self._in_head and not self._deaf:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(f"The request's head is longer than {HEAD_BYTES_MAX} bytes.")
        elif was_in_body and cycle is self.cycle and cycle.more_body and not (cycle.response_complete or self._deaf):
            framing_bytes = len(data) - (len(cycle.body) - body_bytes) * (1 + _FRAMING_PER_BODY_BYTE)
            self._framing_bytes += max(0, framing_bytes)
            if self._framing_bytes > FRAMING_BYTES_MAX:
                self._refuse(f"The body's chunks have more than {FRAMING_BYTES_MAX} bytes of extensions and trailers.")
        elif self.cycle is not cycle and self.cycle.more_body and not (self._in_head or self._deaf):
            length_bytes = long_body_bytes(self.headers)
            self._left_bytes = length_bytes and length_bytes - len(self.cycle.body)

    def _parse(self, data: bytes | memoryview) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.send_400_response(str(error))
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(bytes(data[upgrade.args[0] :]))

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Parse a request that offers another protocol (h2c, websocket) again, as the HTTP/1.1 request that it also is.

        The parser ignores such a request's body, so it would be handled without its body.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("CONNECT is not supported")
            return
        head = head_without_upgrade(method, self.url, self.parser.get_http_version(), self.headers)
        self._renew_parser()
        self._parse(head + rest)

    def _renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def close_gently(self) -> None:
        """Close; if the client may still be sending, only once it had time to read the answer."""
        transport = self._gentle.transport
        if self.lingering_since_ms is not None or transport.is_closing():
            return
        unfinished = self._in_head or (self.cycle is not None and self.cycle.more_body)
        if not unfinished:
            self._gentle.end()
            return
        self._gentle.flush()
        self._deaf = True
        self.lingering_since_ms = self._received_at_ms = _now_ms()
        self.flow.resume_reading()
        # TLS can't, and the answer itself says where it ends.
        if transport.can_write_eof():
            transport.write_eof()

    def sweep(self, now_ms: int, *, is_memory_short: bool = False) -> None:
        """Close the connection if its time is over; ``is_memory_short``: others wait for memory that its answer may hold."""
        transport = self._gentle.transport
        if self.lingering_since_ms is not None:
            if now_ms - self.lingering_since_ms > LINGER_MS or now_ms - self._received_at_ms > LINGER_IDLE_MS:
                transport.abort()
            return
        cycle = self.cycle
        # An answer that the connection has in full holds no reservation any more.
        is_needed = is_memory_short and cycle is not None and not cycle.response_complete
        gentle = self._gentle
        why = self._pace.disconnect_reason(gentle.written_bytes, gentle.unsent_bytes(), now_ms, is_needed=is_needed)
        if why is not None:
            _log.warning("%s; its connection is cut", why)
            transport.abort()
        self._sweep_request(now_ms)

    def _sweep_request(self, now_ms: int) -> None:
        cycle, limits = self.cycle, self._limits
        if (
            cycle is not None
            and cycle.more_body
            and not (cycle.response_started or self._in_head or self.flow.read_paused or cycle.waiting_for_100_continue)
        ):
            if now_ms - self._received_at_ms > limits.body_idle_ms:
                self._refuse(f"No byte of the body arrived for {limits.body_idle_ms} ms.")
            elif now_ms - self._window_since_ms > limits.body_idle_ms:
                if self._window_bytes * 1000 < BODY_BYTES_PER_SECOND_MIN * limits.body_idle_ms:
                    self._refuse(f"The body arrives at less than {BODY_BYTES_PER_SECOND_MIN} bytes a second.")
                self._window_since_ms, self._window_bytes = now_ms, 0
            return
        self._window_since_ms, self._window_bytes = now_ms, 0
        if self._due_at_ms is None or now_ms <= self._due_at_ms:
            return
        if self.flow.read_paused:
            # Pipelined requests wait for earlier ones: the client is not at fault if the rest of a head does not arrive.
            self._due_at_ms = now_ms + limits.head_ms
            return
        self._due_at_ms = None
        if cycle is not None and not cycle.response_complete:
            # Half a head after a request in progress: that request is answered, then the connection ends.
            self._deaf = True
            cycle.keep_alive = False
            return
        # There is no answer that the client could lose.
        self._gentle.end()

    # What the parser finds

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope.update({CONNECTION: self._connection, CLIENT_SOCKET: self._socket, IS_GONE: self._gentle.is_gone})  # type: ignore[misc]
        self._header_count = self._head_bytes = self._framing_bytes = 0
        self._hosts = []
        self._in_head = True
        self._due_at_ms = self._received_at_ms + self._limits.head_ms

    def on_url(self, url: bytes) -> None:
        """Append a piece of the request target."""
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._stop(f"The request's target is longer than {URL_BYTES_MAX} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; drop a trailer."""
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._header_count > HEADERS_MAX:
            self._stop(f"The request has more than {HEADERS_MAX} headers.")
        if self._head_bytes > HEAD_BYTES_MAX:
            self._stop(f"The request's headers are longer than {HEAD_BYTES_MAX} bytes.")
        if not self._in_head:
            return
        # As the overridden method does; calling it would cost each header another call.
        name = name.lower()
        if name == b"host":
            self._hosts.append(value)
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Check the head, and handle the request."""
        if len(self.pipeline) >= PIPELINE_MAX:
            self._stop(f"More than {PIPELINE_MAX} requests are pipelined.")
        fault = fault_of(self.parser.get_http_version(), self.url, self.headers, self._hosts)
        if fault is not None:
            self._stop(*fault)
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        self._in_head = False
        self._due_at_ms = None
        self._window_since_ms, self._window_bytes = self._received_at_ms, 0

    def on_response_complete(self) -> None:
        """Go on after an answer, which may be sent before the request has arrived whole."""
        # Not the overridden method, which sets a timer for each answer: ``sweep`` closes idle connections.
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if self.cycle.response_complete and not self._in_head:
            patience_ms = self._limits.head_ms if self.cycle.more_body else self._limits.idle_ms
            self._due_at_ms = _now_ms() + patience_ms

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Handle the request; a bounded number begins in one iteration of the event loop."""
        self._limits.starts.start(partial(super()._start_asgi_task, cycle, app))

    def on_message_complete(self) -> None:
        """Note that the request has arrived whole."""
        if self.parser.should_upgrade():
            return
        super().on_message_complete()
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle.more_body = False
            self._due_at_ms = _now_ms() + self._limits.idle_ms

    def _stop(self, why: str, where: str = "") -> None:
        self._refusal, self._where = why, where
        raise _BadHead(why)

    # Refusals

    def _refuse(self, why: str) -> None:
        self._refusal = why
        self.send_400_response(why)

    def send_400_response(self, msg: str) -> None:
        """Answer input that can't be parsed, and nothing more on this connection."""
        self._deaf = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if self._in_head:
                # The broken request follows one in progress: that one is answered, then the connection ends.
                cycle.keep_alive = False
                return
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self._gentle.end()
                return
        _log.warning("refused a malformed request: %s", self._refusal or msg)
        headers = self.headers or []
        self._gentle.write(malformed_answer(self._refusal, self._where, headers, self.server_state.default_headers))
        # Bytes after a broken message can't be told from its rest, so the client may still be sending.
        self._in_head = True
        self.close_gently()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
