"""An answer whose memory stays reserved until the client has taken it, or is gone."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.memory_budget import Reservation


class ReservedResponse(Response):
    """A response that releases ``reservation`` when it has been sent, however that ends.

    Sending ends when the last slice is handed to the connection (``gateway.asgi.pacing``), so a slow reader keeps its share.
    """

    def __init__(self, content: bytes, reservation: Reservation, **options: Any) -> None:
        super().__init__(content, **options)
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reservation.release()
