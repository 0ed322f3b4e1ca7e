"""HTTP/1.1 over TLS on one connection: the gateway's protocol, behind a handshake.

1. A connection has its place, of all and of its address's, from the moment that it is accepted: half-done handshakes hold no
   more than requests that don't come. One that is cut for being too many costs no handshake.
2. A handshake has ``head_ms``. What is no TLS, or none that is spoken here, is closed.
3. TLS has no half-closed connections as TCP has. After an answer to a request that has not arrived whole, the connection stays
   open and what comes is dropped, as long as over TCP. Other connections are closed once the system has taken what was
   written: nobody waits for the client's own goodbye.

TLS itself is the event loop's, which a listener would set up before its protocol knows of the connection, and with one
certificate for ever. So the listener is plain, and its class for TLS is put between here.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState
from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]

from gateway.certificate import Certificate
from gateway.process.connection_limits import ConnectionLimits
from gateway.process.protocol import GatewayProtocol

READ_BYTES_MAX: Final = 64 * 1024
"""Received, and not yet decrypted or handed on, before reading pauses."""
_SHUTDOWN_SECONDS: Final = 3600.0
"""The event loop's own bound on closing, which would cut an answer that is read slowly. ``sweep`` has better ones."""


class TlsProtocol(GatewayProtocol):
    """One connection to a gateway with ``certificate``."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
        certificate: Certificate,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, limits=limits)
        self._certificate = certificate
        self._tcp: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, and begin the handshake; after it, begin with HTTP."""
        if self._tcp is not None:
            self.begin(transport, carrier=self._tcp)
            transport.set_read_buffer_limits(READ_BYTES_MAX)  # type: ignore[attr-defined]
            return
        self._tcp = transport
        if not self.enter(transport):
            return
        shaken = self.loop.create_future()
        shaken.add_done_callback(self._on_handshake_end)
        tls = SSLProtocol(
            self.loop,
            self,
            self._certificate.context,
            shaken,
            server_side=True,
            ssl_handshake_timeout=self._limits.head_ms / 1000,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        transport.set_protocol(tls)
        tls.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the connection's place to another."""
        if self._is_secure:
            super().connection_lost(exc)
        else:
            self.leave()

    def shutdown(self) -> None:
        """End when what is under way is answered; a handshake at once."""
        if self._is_secure:
            super().shutdown()
        elif self._tcp is not None:
            self._tcp.abort()

    def sweep(self, now_ms: int, *, is_memory_short: bool = False) -> None:
        """End the connection if it has used up its patience, or only waits for the client's goodbye."""
        if self._is_secure:
            super().sweep(now_ms, is_memory_short=is_memory_short)
            if self._gentle.transport.is_closing() and not self._gentle.unsent_bytes():
                self._gentle.transport.abort()

    @property
    def _is_secure(self) -> bool:
        # uvicorn's attribute is None until the protocol has its transport.
        return self.transport is not None

    def _on_handshake_end(self, shaken: asyncio.Future[None]) -> None:
        # What went wrong is the client's affair.
        if shaken.exception() is not None or not self._is_secure:
            self.leave()
