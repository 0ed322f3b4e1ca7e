"""A second address for operators: probes, metrics, and requests that are not for clients.

It has connections and limits of its own, so clients of the other listener can't make a gateway look dead or hide its metrics. It
shares the event loop: an answer shows that the loop runs.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp
from uvicorn.server import ServerState

from gateway.network.client_addresses import ClientAddresses
from gateway.process.connection_limits import ConnectionLimits
from gateway.process.listener_config import listener_config
from gateway.process.protocol import GatewayProtocol
from gateway.settings.settings import OPERATIONS_CONNECTIONS_MAX, Settings

HEAD_MS_MAX: Final = 2_000
"""Longest time for a request's head: probes are near and short, and a silent connection must not keep one of the few slots."""
_BACKLOG: Final = 64


class OperationsListener:
    """Listener that serves ``app`` on ``settings.ops_host`` and ``port``."""

    def __init__(self, app: ASGIApp, settings: Settings, port: int) -> None:
        self.state = ServerState()
        self._host, self._port = settings.ops_host, port
        self._config = listener_config(app, settings, http="httptools", lifespan="off")
        self._config.load()
        self._limits = ConnectionLimits(
            connections_max=OPERATIONS_CONNECTIONS_MAX,
            accepted_max=2 * OPERATIONS_CONNECTIONS_MAX,
            addresses=ClientAddresses(None),
            head_ms=min(settings.head_ms, HEAD_MS_MAX),
            idle_ms=settings.header_idle_ms,
            body_idle_ms=settings.body_idle_ms,
            write_stall_ms=settings.write_stall_ms,
        )
        self._server: asyncio.Server | None = None

    async def bind(self) -> str:
        """Bind the address, without listening yet; return its URL. Raise ``OSError``."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: GatewayProtocol(self._config, self.state, {}, limits=self._limits),
            self._host,
            self._port,
            backlog=_BACKLOG,
            start_serving=False,
        )
        return listening_url(self._server)

    async def serve(self) -> None:
        """Start listening."""
        assert self._server is not None
        await self._server.start_serving()

    def sweep(self, now_ms: int) -> None:
        """Close connections whose time is over. Called about once a second."""
        for connection in list(self.state.connections):
            if isinstance(connection, GatewayProtocol):
                connection.sweep(now_ms)

    def close(self) -> None:
        """Stop listening; requests in flight are answered first."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.state.connections):
            connection.shutdown()


def listening_url(server: asyncio.Server, scheme: str = "http") -> str:
    """Return the URL of a server's first socket."""
    host, port = server.sockets[0].getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
