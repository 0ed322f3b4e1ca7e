"""Routes by which other gateways ask this one about journals (``forwarding.journal_peers``). Only for requests with a peer's
hop."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.access.needs import open_to_all
from gateway.call import detached_from_call
from gateway.forwarding.peer_journals import NEWS_BYTES_MAX, NEWS_PATH, OFFER_PATH
from gateway.gateway import gateway_of
from gateway.problem import refused
from gateway.routes.peer_message import peer_message
from gateway.routes.typed_route import TypedRoute
from log_format.errors import TidelogError
from log_format.journal.offer import OFFER_BYTES_MAX, decode_offer, encode_answer
from log_format.limits import JOURNALS

router = APIRouter(route_class=TypedRoute, tags=["operations"])

_Journal = Annotated[int, msgspec.Meta(ge=0, lt=JOURNALS)]
_NEWS: Final = msgspec.json.Decoder(tuple[_Journal, Annotated[int, msgspec.Meta(ge=0, le=2**53)]])


@router.post(OFFER_PATH.decode(), include_in_schema=False)
@open_to_all
async def journal_offer(request: Request) -> Response:
    """Accept an object that another gateway has put for the journal. 204: it was not accepted, and will not be."""
    gateway = gateway_of(request)
    data, sender = await peer_message(request, OFFER_BYTES_MAX)
    try:
        journal, offer = decode_offer(data)
    except ValueError as error:
        raise refused(f"The offer can't be read: {error}.") from error
    if journal >= JOURNALS:
        raise refused("There is no such journal.")
    if gateway.engine.draining:
        return Response(status_code=204)
    with detached_from_call():
        taken = await gateway.engine.journals.accept_offer(journal, offer, sender)
    if taken is None:
        return Response(status_code=204)
    return Response(encode_answer(taken), media_type="application/json")


@router.post(NEWS_PATH.decode(), include_in_schema=False)
@open_to_all
async def journal_news(request: Request) -> None:
    """Look at a journal to which another gateway has committed, if a reader waits for it."""
    gateway = gateway_of(request)
    data, _ = await peer_message(request, NEWS_BYTES_MAX)
    try:
        journal, version = _NEWS.decode(data)
    except ValueError as error:
        raise refused(f"The news can't be read: {error}.") from error
    with suppress(TidelogError):
        await gateway.engine.journals.notice_commit(journal, version)
