"""Answers in JSON that may be long: memory for them is reserved before they are made, and held until they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.engine.answer_memory import reserve_for_tail
from gateway.json_response import encoded, json_response
from gateway.memory_budget import Reservation
from gateway.shell import answer_memory, shell_of

INLINE_BYTES_MAX: Final = 32 * 1024
"""What is longer is made in a thread, with memory reserved for it."""


class _HeldResponse:
    def __init__(self, body: bytes, status: int, reservation: Reservation) -> None:
        self._body = body
        self._status = status
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        try:
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body))]
            await send({"type": "http.response.start", "status": self._status, "headers": headers})
            await send({"type": "http.response.body", "body": self._body})
        finally:
            self._reservation.release()


async def held_json(request: Request, make: Callable[[], Any], *, size_bytes: int, status: int = 200) -> ASGIApp:
    """An ``application/json`` answer of what ``make`` returns; ``size_bytes``: about how long it is at most.

    ``make`` is called in a thread when the answer is long, and must only read what does not change. Raises ``BackOff``
    (``OVERLOADED``), and as ``make``.
    """
    if size_bytes <= INLINE_BYTES_MAX:
        return json_response(make(), status)
    reservation = await reserve_for_tail(answer_memory(request), size_bytes)
    is_made = False
    try:
        pool = shell_of(request).codec_pool
        body = await asyncio.get_running_loop().run_in_executor(pool, lambda: encoded(make()))
        reservation.shrink_to(len(body))
        is_made = True
        return _HeldResponse(body, status, reservation)
    finally:
        if not is_made:
            reservation.release()
