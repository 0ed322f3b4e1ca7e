"""JSON answers that may be long: their memory is reserved before they are made, and held until they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.engine.answer_memory import reserve_for_tail
from gateway.gateway import answer_memory, gateway_of
from gateway.http.json_response import encode_json, json_response
from gateway.memory_budget import Reservation

INLINE_BYTES_MAX: Final = 32 * 1024
"""Estimated size above which an answer is made in a thread, with memory reserved for it."""


class _ReservedResponse:
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


class AnswerReservation:
    """Memory for an answer, reserved before a change is made, because after the change no lack of memory may refuse the answer.

    Leaving the ``with`` block releases the memory, unless an answer took it over.
    """

    def __init__(self, request: Request, reservation: Reservation | None) -> None:
        self._pool = gateway_of(request).codec_pool
        self._reservation = reservation

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reservation is not None:
            self._reservation.release()

    async def json(self, make: Callable[[], Any], status: int = 200) -> ASGIApp:
        """Return an ``application/json`` answer with the result of ``make``, which must only read immutable values.

        A long answer is made in a thread. Raises as ``make`` does, and nothing else.
        """
        if self._reservation is None:
            return json_response(make(), status)
        body = await asyncio.get_running_loop().run_in_executor(self._pool, lambda: encode_json(make()))
        reservation, self._reservation = self._reservation, None
        reservation.hold(len(body))
        return _ReservedResponse(body, status, reservation)


async def reserve_answer(request: Request, size_bytes: int) -> AnswerReservation:
    """Reserve memory for an answer of at most about ``size_bytes``. Raise ``BackOff`` (``OVERLOADED``)."""
    if size_bytes <= INLINE_BYTES_MAX:
        return AnswerReservation(request, None)
    return AnswerReservation(request, await reserve_for_tail(answer_memory(request), size_bytes))


async def reserved_json(request: Request, make: Callable[[], Any], *, size_bytes: int) -> ASGIApp:
    """Return an ``application/json`` answer with the result of ``make``, for requests that change nothing. Raise as
    ``reserve_answer`` does."""
    with await reserve_answer(request, size_bytes) as room:
        return await room.json(make)
