"""A gateway around an engine of the test's own, which knows no other gateway."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import PeerConnections
from gateway.forwarding.hop import Hops
from gateway.gateway import Gateway
from gateway.memory_budget import MemoryBudget
from gateway.process.assembly import GatewayParts, assemble_from_parts
from gateway.settings.settings import Settings
from gateway.telemetry.metrics import Metrics
from log_format.clock import SystemClock
from log_format.stores.memory import MemoryStore


def lone_gateway(settings: Settings, engine: Any) -> Gateway:
    """``settings.store`` is ``memory://NAME``. The engine may be a stand-in: what is asked of it must be there."""
    clock = SystemClock()
    ownership = Ownership(settings.gateway_id, Peers(clock), "off")
    connections = PeerConnections(1)
    parts = GatewayParts(
        store=MemoryStore(settings.store.removeprefix("memory://")),
        engine=engine,
        ownership=ownership,
        connections=connections,
        breaker=Breaker(ownership.peers, connections, clock),
        hops=Hops(ownership.peers, clock, instance="lone"),
        clock=clock,
        metrics=Metrics(),
        request_memory=MemoryBudget(settings.in_flight_bytes_max, "request bodies"),
        codec_pool=ThreadPoolExecutor(settings.codec_threads),
        compression_pool=ThreadPoolExecutor(1),
    )
    return assemble_from_parts(settings, parts)
