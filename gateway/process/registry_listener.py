"""An address of its own for clients of the schema registry that can't take a path: what is at ``/registry`` is at its root.

Its connections count among those of the clients' listener, and a request goes through the same application, so it is
authenticated, judged, counted and audited as there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.registry_problem import PREFIX

_BACKLOG: Final = 1024


class AtTheRoot:
    """Application that serves the registry's paths without their prefix, and no others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        scope["path"] = PREFIX + scope["path"]
        scope["raw_path"] = PREFIX.encode() + scope["raw_path"]
        return self._app(scope, receive, send)


class RegistryListener:
    """Listener at ``address``, HOST:PORT. ``protocol``: makes the protocol of a connection."""

    def __init__(self, address: str, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._protocol = protocol
        self._server: asyncio.Server | None = None

    async def bind(self, *, is_shared: bool) -> asyncio.Server:
        """Bind the address, without listening yet. ``is_shared``: a worker's successor may bind it, too. Raise ``OSError``."""
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol,
            self._host.strip("[]"),
            int(self._port),
            backlog=_BACKLOG,
            start_serving=False,
            reuse_port=is_shared,
        )
        return self._server

    async def serve(self) -> None:
        """Start listening."""
        assert self._server is not None
        await self._server.start_serving()

    def stop_listening(self) -> None:
        """Accept no new connections; open ones go on, and are closed with those of the clients' listener."""
        if self._server is not None:
            self._server.close()
