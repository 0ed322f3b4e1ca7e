"""What other gateways ask of this one about journals (``forwarding.journal_peers``). Without their MAC there is no such route."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.call import unasked
from gateway.cluster.keys import JOURNAL_NEWS, JOURNAL_OFFER
from gateway.forwarding.journal_peers import MAC, NEWS_BYTES_MAX, NEWS_PATH, OFFER_PATH
from gateway.gateway import gateway_of
from gateway.http.body import BodyLimits, request_body
from gateway.http.dispatch import no_such_route
from gateway.problem import refused
from gateway.routes.typed_route import TypedRoute
from log_format.errors import TidelogError
from log_format.journal.offer import OFFER_BYTES_MAX, decode_offer, encode_taken
from log_format.limits import JOURNALS

router = APIRouter(route_class=TypedRoute, tags=["operations"])

_Journal = Annotated[int, msgspec.Meta(ge=0, lt=JOURNALS)]
_NEWS: Final = msgspec.json.Decoder(tuple[_Journal, Annotated[int, msgspec.Meta(ge=0, le=2**53)]])


@router.post(OFFER_PATH, include_in_schema=False)
async def journal_offer(request: Request) -> Response:
    """Take up an object that another gateway has put. 204: it was not taken up, and will not be."""
    gateway = gateway_of(request)
    data = await _signed(request, JOURNAL_OFFER, OFFER_BYTES_MAX)
    try:
        journal, offer = decode_offer(data)
    except ValueError as error:
        raise refused(f"The offer can't be read: {error}.") from error
    if journal >= JOURNALS:
        raise refused("There is no such journal.")
    if gateway.engine.draining:
        return Response(status_code=204)
    with unasked():
        taken = await gateway.engine.journals.get(journal).writer.takes.take(offer)
    if taken is None:
        return Response(status_code=204)
    return Response(encode_taken(taken), media_type="application/json")


@router.post(NEWS_PATH, include_in_schema=False)
async def journal_news(request: Request) -> None:
    """Look at a journal that another gateway has committed to, where a reader waits for it."""
    gateway = gateway_of(request)
    data = await _signed(request, JOURNAL_NEWS, NEWS_BYTES_MAX)
    try:
        journal, version = _NEWS.decode(data)
    except ValueError as error:
        raise refused(f"The news can't be read: {error}.") from error
    with suppress(TidelogError):
        await gateway.engine.journals.hear(journal, version)


async def _signed(request: Request, purpose: bytes, bytes_max: int) -> bytes:
    """The body, where a gateway of this cluster signed it for that purpose. Raises ``RequestRefused`` (404)."""
    gateway = gateway_of(request)
    keys, mac = gateway.peers.keys, request.headers.get(MAC.decode())
    if keys is None or mac is None:
        raise no_such_route()
    limits = BodyLimits(bytes_max=bytes_max, total_ms=gateway.body_limits.total_ms)
    async with request_body(request, limits, gateway.request_memory, pool=gateway.codec_pool) as body:
        if not keys.is_signed(purpose, body.data, mac):
            raise no_such_route()
        return body.data
