"""The real HTTP shell around an engine that keeps nothing, as a process: ``python stub_gateway.py --port 0 …``.

Routes of its own: ``POST /v1/echo`` (the body comes back), ``GET /v1/large?size=`` (an answer of so many bytes),
``GET /v1/wait`` (a long poll that only draining ends), ``GET /v1/stream`` (events, likewise), ``GET /v1/fail``.
"""

from __future__ import annotations

if __name__ == "__main__":
    from log_format.without_pandas import hide_pandas

    hide_pandas()

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp

from gateway.access.needs import needs
from gateway.access.rights import OPEN
from gateway.app import ROUTERS, create_app
from gateway.gateway import gateway_of
from gateway.http import fields
from gateway.http.body import request_body
from gateway.http.disconnect import cancel_on_disconnect
from gateway.http.json_response import json_response
from gateway.process.server import GatewayServer, server_config
from gateway.routes.typed_route import TypedRoute
from gateway.settings.settings import Settings
from gateway.telemetry import structured_log
from log_format.clock import SystemClock
from log_format.errors import BackOff, StoreUnavailable
from tests.support.application import StubJournals
from tests.support.lone_gateway import lone_gateway

router = APIRouter(route_class=TypedRoute)


class StubEngine:
    """Waits, drains, and says what it was told about the store."""

    def __init__(self) -> None:
        self.draining = False
        self.topics = self.reader = self.administration = self.producer_ids = None
        self.clock = SystemClock()
        self.rights = OPEN
        self.owned_topic_count = 0
        self.journals = StubJournals()
        self.store_is_up = True
        self.waiting_count = 0
        self.ended = asyncio.Event()

    async def start(self) -> None:
        pass

    def refuse_work(self) -> None:
        self.draining = True

    async def drain(self) -> None:
        self.refuse_work()
        await asyncio.sleep(float(os.environ.get("STUB_DRAIN_SECONDS", "0")))
        self.ended.set()

    async def measure(self) -> None:
        pass

    async def store_answers(self) -> None:
        if not self.store_is_up:
            raise StoreUnavailable("system/probe", "connection refused", may_have_happened=False)


def engine_of(request: Request) -> StubEngine:
    engine: object = gateway_of(request).engine
    assert isinstance(engine, StubEngine)
    return engine


@router.post("/v1/echo")
@needs()
async def echo(request: Request) -> Response:
    gateway = gateway_of(request)
    async with request_body(request, gateway.body_limits, gateway.request_memory, pool=gateway.codec_pool) as body:
        return Response(body.data, media_type="application/octet-stream")


class Size(fields.Parameters):
    """Of the answer."""

    size: Annotated[int, fields.Between(0, 1 << 30), fields.Digits] = 1


@router.get("/v1/large")
@needs()
async def large(request: Request, query: Annotated[Size, Query()]) -> Response:
    with gateway_of(request).answer_memory.reserve(query.size):
        return Response(b"x" * query.size, media_type="application/octet-stream")


@router.get("/v1/wait")
@needs()
async def wait(request: Request) -> ASGIApp:
    engine = engine_of(request)
    engine.waiting_count += 1
    try:
        await cancel_on_disconnect(request, engine.ended.wait())
    finally:
        engine.waiting_count -= 1
    return json_response({"waited": True})


@router.get("/v1/waiting")
@needs()
async def waiting(request: Request) -> ASGIApp:
    return json_response({"waiting": engine_of(request).waiting_count})


@router.get("/v1/stream")
@needs()
async def stream(request: Request) -> Response:
    engine = engine_of(request)

    async def events() -> AsyncIterator[bytes]:
        yield b"event: record\ndata: {}\n\n" * 100
        await engine.ended.wait()
        yield b"event: end\ndata: draining\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@router.get("/v1/fail")
@needs()
async def fail(request: Request) -> Response:
    raise ZeroDivisionError("a secret of the inside")


@router.post("/v1/store/{state}")
@needs()
async def store(request: Request) -> ASGIApp:
    engine_of(request).store_is_up = request.path_params["state"] == "up"
    return json_response({})


@router.get("/v1/parts/{part}")
@needs()
async def parts(request: Request) -> ASGIApp:
    from gateway.http.parameters import path_text

    return json_response({"part": path_text(request, "part")})


@router.get("/v1/store-error")
@needs()
async def store_error(request: Request) -> Response:
    raise (
        BackOff("later")
        if request.scope["query_string"] == b""
        else StoreUnavailable("k", "secret", may_have_happened=True)
    )


def main() -> int:
    arguments = sys.argv[1:]
    given = dict(zip((a.removeprefix("--").replace("-", "_") for a in arguments[::2]), arguments[1::2], strict=True))
    settings = Settings.read({}, {"store": "memory://stub", "port": 0, **given})
    structured_log.configure(settings.log_level)
    gateway = lone_gateway(settings, StubEngine())
    app = create_app(gateway, (*ROUTERS, router))

    def announce(url: str, _operations_url: str | None) -> None:
        sys.stdout.write(url + "\n")
        sys.stdout.flush()

    server = GatewayServer(server_config(app, gateway), gateway, announce)
    try:
        server.run()
    finally:
        structured_log.WRITER.flush()
    return 0 if server.drained_whole else 1


if __name__ == "__main__":
    sys.exit(main())
