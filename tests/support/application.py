"""The application around an engine that does nothing, asked without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.access.needs import needs
from gateway.access.rights import OPEN
from gateway.app import ROUTERS, create_app
from gateway.gateway import Gateway
from gateway.routes.typed_route import TypedRoute
from gateway.settings.settings import Settings
from log_format.clock import SystemClock
from log_format.errors import BackOff, ErrorCode
from tests.support.lone_gateway import lone_gateway


class StubJournals:
    """None is in use."""

    refusal_reason = None

    def count_in_use(self) -> tuple[int, int]:
        return 0, 0


class StubEngine:
    """Does nothing, and says of the store what it was told."""

    def __init__(self) -> None:
        self.draining = False
        self.topics = self.reader = self.administration = self.producer_ids = None
        self.clock = SystemClock()
        self.owned_topic_count = 3
        self.journals = StubJournals()
        self.rights = OPEN
        self.events: list[str] = []
        self.store_error: Exception | None = None

    async def start(self) -> None:
        self.events.append("start")

    def refuse_work(self) -> None:
        self.draining = True

    async def drain(self) -> None:
        self.events.append("drain")
        self.refuse_work()

    async def measure(self) -> None:
        pass

    async def store_answers(self) -> None:
        self.events.append("look")
        if self.store_error is not None:
            raise self.store_error


router = APIRouter(route_class=TypedRoute)


@router.get("/v1/fail")
@needs()
async def fail(_request: Request) -> Response:
    raise ZeroDivisionError("a secret")


@router.get("/v1/gone")
@needs()
async def gone(_request: Request) -> Response:
    raise ClientDisconnect


@router.get("/v1/fine")
@needs()
async def fine(_request: Request) -> Response:
    return Response(b"fine")


@router.get("/v1/corrupt")
@needs()
async def corrupt(_request: Request) -> Response:
    raise BackOff("broken", code=ErrorCode.CORRUPT_SEGMENT, segment="segments/x.parquet")


def gateway_with(**values: Any) -> Gateway:
    settings = {"store": "memory://x", "gateway_id": "a", "log_level": "error", **values}
    return lone_gateway(Settings(**settings), StubEngine())


class Client:
    """Asks the application directly, without a socket; ``operations``: what the operations listener serves."""

    def __init__(self, gateway: Gateway, *, operations: bool = False) -> None:
        self.app = create_app(gateway, (*ROUTERS, router))
        self._asked = self.app.operations if operations else self.app

    def request(self, method: str, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._asked)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(ask())

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
        return self.request("GET", path, headers)


def engine_of(gateway: Gateway) -> StubEngine:
    found: object = gateway.engine
    assert isinstance(found, StubEngine)
    return found
