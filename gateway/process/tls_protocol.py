"""HTTP/1.1 over TLS on one connection: the gateway's protocol, after a handshake.

1. A connection counts, in total and for its address, from the moment it is accepted: an unfinished handshake holds no more than a
   connection without requests. A connection refused at the limits costs no handshake.
2. A handshake has ``head_ms``. Connections without TLS, or with an unsupported version, are closed.
3. Unlike TCP, TLS has no half-closed connections. After an answer to a request that has not arrived whole, the connection stays
   open and input is discarded, as long as over TCP. Other connections are closed once the system has accepted all output, without
   waiting for the client's close_notify.

The event loop supports TLS, but its listener would start TLS before the protocol knows of the connection, and always with the
same certificate. So the listener is plain, and the event loop's TLS protocol is inserted here.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState
from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]

from gateway.network.certificate import CLIENT_CERTIFICATE, Certificate, ClientCertificate, client_certificate
from gateway.process.connection_limits import ConnectionLimits
from gateway.process.protocol import GatewayProtocol

READ_BYTES_MAX: Final = 64 * 1024
"""Bytes received, and not yet decrypted or passed on, above which reading pauses."""
_SHUTDOWN_SECONDS: Final = 3600.0
"""Effectively no limit: the event loop's own would cut off an answer that is read slowly; ``sweep`` has better limits."""


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
        self._shown: ClientCertificate | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection and start the handshake; after the handshake, start HTTP."""
        if self._tcp is not None:
            self._shown = client_certificate(transport.get_extra_info("peercert"))
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

    def on_message_begin(self) -> None:
        """Begin a request. Its caller is the principal of the connection's certificate, if there is one."""
        super().on_message_begin()
        if self._shown is not None:
            self.scope[CLIENT_CERTIFICATE] = self._shown  # type: ignore[typeddict-unknown-key]

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's slot."""
        if self._is_secure:
            super().connection_lost(exc)
        else:
            self.leave()

    def shutdown(self) -> None:
        """Close once requests in flight are answered; during a handshake immediately."""
        if self._is_secure:
            super().shutdown()
        elif self._tcp is not None:
            self._tcp.abort()

    def sweep(self, now_ms: int, *, is_memory_short: bool = False) -> None:
        """Close the connection if its time is over, or if it only waits for the client's close_notify."""
        if self._is_secure:
            super().sweep(now_ms, is_memory_short=is_memory_short)
            if self._gentle.transport.is_closing() and not self._gentle.unsent_bytes():
                self._gentle.transport.abort()

    @property
    def _is_secure(self) -> bool:
        # uvicorn's attribute is None until the protocol gets its transport.
        return self.transport is not None

    def _on_handshake_end(self, shaken: asyncio.Future[None]) -> None:
        # The client's errors are not logged.
        if shaken.exception() is not None or not self._is_secure:
            self.leave()
