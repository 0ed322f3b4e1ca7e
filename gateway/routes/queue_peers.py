"""Routes by which other gateways use this one's queues (``forwarding.queue_peers``). Only for requests with a peer's hop."""

from __future__ import annotations

from typing import TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.access.needs import open_to_all
from gateway.forwarding.peer_queues import MEDIA_TYPE, SETTLE_PATH, TAKE_PATH
from gateway.gateway import engine_of, gateway_of
from gateway.http.disconnect import cancel_on_disconnect
from gateway.memory_budget import Reservation
from gateway.problem import refused
from gateway.queues.peer_messages import (
    MESSAGE_BYTES_MAX,
    Refusal,
    SettleAnswer,
    SettleRequest,
    TakeAnswer,
    TakeRequest,
    decode_message,
    encode_message,
    taken_records,
)
from gateway.routes.peer_message import peer_message
from gateway.routes.typed_route import TypedRoute
from log_format.errors import BackOff, ErrorCode, TidelogError

router = APIRouter(route_class=TypedRoute, tags=["operations"])
M = TypeVar("M")


@router.post(TAKE_PATH.decode(), include_in_schema=False)
@open_to_all
async def queue_takes(request: Request) -> Response:
    """Lock records for a client of another gateway, which has already checked what the client may read."""
    gateway = gateway_of(request)
    data, sender = await peer_message(request, MESSAGE_BYTES_MAX)
    asked = _message(data, TakeRequest)
    try:
        _check(gateway.engine.draining)
        work = gateway.engine.queues.receive(asked.queue, asked.wish, gateway.answer_memory.of(sender))
        received = await cancel_on_disconnect(request, work)
    except TidelogError as error:
        return _answer(TakeAnswer(refusal=Refusal.of(error)))
    try:
        answer = TakeAnswer(taken=taken_records(received, received.locked_until_ms - gateway.clock.now_ms()))
        return _ReservedResponse(encode_message(answer), received.reservation)
    except BaseException:
        received.reservation.release()
        raise


@router.post(SETTLE_PATH.decode(), include_in_schema=False)
@open_to_all
async def queue_settlements(request: Request) -> Response:
    """Settle records that a client of another gateway holds."""
    engine = engine_of(request)
    data, _ = await peer_message(request, MESSAGE_BYTES_MAX)
    asked = _message(data, SettleRequest)
    try:
        _check(engine.draining)
        results = await engine.queues.settle(asked.queue, asked.settlements)
    except TidelogError as error:
        return _answer(SettleAnswer(refusal=Refusal.of(error)))
    return _answer(SettleAnswer(results=results))


def _check(draining: bool) -> None:
    if draining:
        raise BackOff("This gateway is shutting down.", code=ErrorCode.DRAINING)


def _message(data: bytes, kind: type[M]) -> M:
    try:
        return decode_message(data, kind)
    except ValueError as error:
        raise refused(f"The message can't be read: {error}.") from error


def _answer(message: object) -> Response:
    return Response(encode_message(message), media_type=MEDIA_TYPE.decode())


class _ReservedResponse(Response):
    """An answer whose memory is released once it is sent."""

    def __init__(self, content: bytes, reservation: Reservation) -> None:
        super().__init__(content, media_type=MEDIA_TYPE.decode())
        self._reservation = reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, and release its memory."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reservation.release()
