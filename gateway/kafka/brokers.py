"""The gateways as Kafka's clients see them: brokers with a node id, a host and a port.

1. A node id follows from the gateway's id, so that every gateway tells the same.
2. A gateway whose heartbeat has no Kafka address is no broker.
3. A gateway that drains tells of the others only, if there are any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from gateway.cluster.heartbeat import Heartbeat
from log_format.cluster.preferred import preferred

_NODE_ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Advertised:
    """Where clients reach a gateway's Kafka listener."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Of ``host:port``; an IPv6 address in brackets."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Broker:
    """One of them."""

    node_id: int
    gateway_id: str
    address: Advertised
    zone: str | None = None


@lru_cache(maxsize=1024)
def node_id(gateway_id: str) -> int:
    """A positive int32. That two of some hundred gateways have the same is unlikely, and costs only detours."""
    return int.from_bytes(hashlib.sha256(gateway_id.encode()).digest()[:8], "big") % _NODE_ID_MAX + 1


def brokers_of(heartbeats: Iterable[Heartbeat], own_id: str, *, drains: bool = False) -> list[Broker]:
    """By node id, each once; with ``drains`` without this gateway, if others are left."""
    found = {
        node_id(one.id): Broker(node_id(one.id), one.id, Advertised.of(one.kafka), one.zone)
        for one in heartbeats
        if one.kafka
    }
    if drains and len(found) > 1:
        found.pop(node_id(own_id), None)
    return [found[number] for number in sorted(found)]


def of_zones(topic: str, brokers: Sequence[Broker]) -> Mapping[str, int]:
    """The node id of the broker that consumers of each zone read the topic from; empty where all are of one zone."""
    by_zone: dict[str, dict[str, int]] = {}
    for one in brokers:
        if one.zone is not None:
            by_zone.setdefault(one.zone, {})[one.gateway_id] = one.node_id
    if len(by_zone) < 2:
        return {}
    return {zone: some[str(preferred(topic, some))] for zone, some in by_zone.items()}
