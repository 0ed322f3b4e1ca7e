"""A request's body, kept for a second reading: the owner that it was passed on to may refuse it untouched."""

from __future__ import annotations

from collections import deque

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from gateway.memory_budget import Reservation


class KeptBody:
    """Messages of a request, kept for a second reading."""

    def __init__(self, receive: Receive, reservation: Reservation) -> None:
        self.rest = receive
        self._kept: deque[Message] = deque()
        self.reservation = reservation

    async def read(self, bytes_max: int) -> bytes | None:
        """Return the whole body; None when it is longer than ``bytes_max``. Raises ``ClientDisconnect``, ``BackOff``."""
        pieces: list[bytes] = []
        more = True
        while more:
            message = await self.rest()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._kept.append(message)
            piece: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            if self.reservation.size_bytes + len(piece) > bytes_max:
                return None
            self.reservation.grow(len(piece))
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def again(self) -> Message:
        """Return ASGI's next message, from the beginning of the body."""
        return self._kept.popleft() if self._kept else await self.rest()
