"""One gateway, whole: the parts that routes and the server use. ``gateway.process.assembly`` makes it last."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from starlette.requests import Request

from gateway.certificate import Certificate
from gateway.cluster.membership import Membership
from gateway.cluster.peers import Peers
from gateway.forwarding.forwarding import Forwarding
from gateway.http.body import BodyLimits
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, MemoryBudget
from gateway.metrics import Metrics
from gateway.settings import Settings
from log_format.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """``request_memory`` is for bodies, ``answer_memory`` for what fetches hold, ``codec_pool`` for large bodies and answers."""

    settings: Settings
    store_uri: str
    clock: Clock
    metrics: Metrics
    request_memory: MemoryBudget
    answer_memory: MemoryBudget
    body_limits: BodyLimits
    codec_pool: Executor
    engine: LogEngine
    membership: Membership
    peers: Peers
    forwarding: Forwarding
    certificate: Certificate | None
    """None: HTTP is plain."""


def gateway_of(request: Request) -> Gateway:
    """The gateway that serves the request."""
    gateway: Gateway = request.scope["app"].state.gateway
    return gateway


def engine_of(request: Request) -> LogEngine:
    """The engine of the gateway that serves the request."""
    return gateway_of(request).engine


def answer_memory(request: Request) -> Memory:
    """The memory for answers, as this connection's client has it."""
    client = request.client
    return gateway_of(request).answer_memory.of("" if client is None else client.host)
