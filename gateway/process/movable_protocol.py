"""HTTP/1.1 on a connection that may move to another worker of the port, or came from one (``connection_mover``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.forwarding.peer_affinity import AFFINITY, PeerAffinity
from gateway.process.connection_limits import ConnectionLimits
from gateway.process.protocol import GatewayProtocol

MOVES_AFTER: Final = 4
"""Consecutive requests for one worker before a move. With two workers, a connection whose requests go to
either at random would move at every sixteenth."""


class MovableProtocol(GatewayProtocol):
    """HTTP on one connection that can move to another worker.

    ``hand_over``: sends a connection's descriptor to the worker at a URL, and returns whether it was sent.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: ConnectionLimits,
        hand_over: Callable[[str, int], bool],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, limits=limits)
        self._hand_over = hand_over
        self._leaning = PeerAffinity()
        self._may_move = True
        self._came = False

    def came(self, *, may_move: bool) -> None:
        """Note, before it begins, that the connection comes from another worker and is between two requests."""
        self._came, self._may_move = True, may_move

    def begin(self, transport: asyncio.Transport, carrier: asyncio.Transport | None = None) -> None:
        """Start HTTP, or resume it."""
        super().begin(transport, carrier)
        if self._came:
            self._due_at_ms = self._received_at_ms + self._limits.idle_ms

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope[AFFINITY] = self._leaning  # type: ignore[typeddict-unknown-key]

    def on_response_complete(self) -> None:
        """Finish an answer."""
        super().on_response_complete()
        if self._may_move and self._leaning.count >= MOVES_AFTER:
            # The event loop sends the end of the answer in this iteration.
            self.loop.call_soon(self._move)

    def _move(self) -> None:
        """Hand the connection to the worker to which its requests keep going, if it is between two requests."""
        cycle, leaning, transport = self.cycle, self._leaning, self._gentle.transport
        is_between = (
            cycle is not None
            and cycle.response_complete
            and cycle.keep_alive
            and not (cycle.more_body or self.pipeline or self._in_head or self._deaf)
            and not (transport.is_closing() or self._gentle.unsent_bytes())
        )
        if not is_between or self._connection.has_quotas:
            return
        leaning.reset()
        if self._hand_over(leaning.url, transport.get_extra_info("socket").fileno()):
            # Closes this process's descriptor only: the other process's stays open.
            transport.abort()
