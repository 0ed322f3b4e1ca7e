"""Admission of connections: limited in all and for each client address, including TLS handshakes in progress.

With TLS a connection is plain until it is counted. Then the event loop's TLS protocol is inserted, with the certificate that is
current at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from uvloop.loop import SSLProtocol  # type: ignore[attr-defined]

from gateway.network.certificate import Certificate
from gateway.network.client_addresses import ClientAddresses, address_key


class Admission:
    """The count of connections. ``refused`` is called with the reason for each connection that is not admitted. Used on the
    event loop only."""

    def __init__(self, connections_max: int, addresses: ClientAddresses, refused: Callable[[str], None]) -> None:
        self._connections_max = connections_max
        self._addresses = addresses
        self._refused = refused
        self.count = 0
        """Number of open admitted connections."""

    def enter(self, transport: asyncio.Transport) -> Callable[[], None] | None:
        """Admit the connection, and return a function that releases its place, idempotent; None if the connection is refused."""
        peer = transport.get_extra_info("peername")
        address = address_key(peer[0]) if peer else ""
        reason = "too_many" if self.count >= self._connections_max else None
        if self._addresses.enter(address) and reason is None:
            reason = "too_many_of_address"
        if reason is not None:
            self._addresses.leave(address)
            self._refused(reason)
            transport.abort()
            return None
        self.count += 1
        places = [address]

        def leave() -> None:
            while places:
                self._addresses.leave(places.pop())
                self.count -= 1

        return leave


class AdmittedProtocol(asyncio.Protocol):
    """Protocol of a new connection: replaced by ``inner`` once it is admitted, behind a TLS handshake if there is a
    certificate."""

    def __init__(
        self,
        admission: Admission,
        inner: Callable[[Callable[[], None]], asyncio.BufferedProtocol],
        certificate: Certificate | None,
        handshake_ms: int,
    ) -> None:
        """Store the parts. ``inner`` gets the function that releases the connection's place, and calls it when the connection
        ends."""
        self._admission = admission
        self._inner = inner
        self._certificate = certificate
        self._handshake_ms = handshake_ms

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection and replace this protocol by the inner one (asyncio)."""
        leave = self._admission.enter(transport)
        if leave is None:
            return
        protocol: asyncio.BaseProtocol = self._inner(leave)
        if self._certificate is not None:
            loop = asyncio.get_running_loop()
            shaken = loop.create_future()
            # If the handshake fails, the inner protocol never learns of the connection. The client's errors are not logged.
            shaken.add_done_callback(lambda done: leave() if done.cancelled() or done.exception() is not None else None)
            protocol = SSLProtocol(
                loop,
                protocol,
                self._certificate.context,
                shaken,
                server_side=True,
                ssl_handshake_timeout=self._handshake_ms / 1000,
            )
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
