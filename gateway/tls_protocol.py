"""HTTP/1.1 over TLS on one connection: the gateway's protocol, behind a handshake.

1. A connection has its place, of all and of its address's, from the moment that it is accepted: half-done handshakes hold no
   more than requests that don't come. One that is cut for being too many costs no handshake.
2. A handshake has ``head_ms``. What is no TLS, or none that is spoken here, is closed.
3. TLS has no half-closed connections as TCP has. After an answer to a request that has not arrived whole, the connection stays
   open and what comes is dropped, as long as over TCP. Other connections are closed once the system has taken what was
   written: nobody waits for the client's own goodbye.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.certificate import Certificate
from gateway.connection_limits import ConnectionLimits
from gateway.protocol import GatewayProtocol

READ_KIBIBYTES_MAX: Final = 64
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
        self._tcp: asyncio.Transport
        self._handshaking: asyncio.Task[None]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, and begin the handshake."""
        self._tcp = transport
        self._handshaking = self.loop.create_task(self._handshake())
        if self.enter(transport):
            transport.pause_reading()
        else:
            self._handshaking.cancel()

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
        else:
            self._handshaking.cancel()
            self._tcp.abort()

    def sweep(self, now_ms: int) -> None:
        """End the connection if it has used up its patience, or only waits for the client's goodbye."""
        if self._is_secure:
            super().sweep(now_ms)
            if self._gentle.transport.is_closing() and not self._gentle.unsent_bytes():
                self._gentle.transport.abort()

    @property
    def _is_secure(self) -> bool:
        # uvicorn's attribute is None until the protocol has its transport.
        return self.transport is not None

    async def _handshake(self) -> None:
        try:
            transport = await self.loop.start_tls(
                self._tcp,
                self,
                self._certificate.context,
                server_side=True,
                ssl_handshake_timeout=self._limits.head_ms / 1000,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
            assert transport is not None
            # In this very turn of the loop: what was received behind the handshake is handed on in the next.
            self.begin(transport, carrier=self._tcp)
            transport.set_read_buffer_limits(READ_KIBIBYTES_MAX * 1024)  # type: ignore[attr-defined]
        except OSError:
            # It is no TLS, the client gave up, or it took too long.
            pass
        finally:
            if not self._is_secure:
                self._tcp.abort()
                self.leave()
