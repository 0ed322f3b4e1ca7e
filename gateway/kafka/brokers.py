"""The gateways as Kafka clients see them: brokers with a node id, a host and a port.

1. A node id is derived from the gateway's id, so every gateway computes the same one.
2. A gateway whose heartbeat has no Kafka address is not listed as a broker.
3. A gateway that drains lists only the other brokers, unless there are none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from gateway.cluster.heartbeat import Heartbeat
from log_format.cluster.preferred import preferred_gateway

_NODE_ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Advertised:
    """The address at which clients reach a gateway's Kafka listener."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``host:port``; an IPv6 address is in brackets."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Broker:
    """A gateway that has a Kafka listener."""

    node_id: int
    gateway_id: str
    address: Advertised
    zone: str | None = None


@lru_cache(maxsize=1024)
def node_id(gateway_id: str) -> int:
    """Return the gateway's node id, a positive int32. Two of a few hundred gateways are unlikely to share one; a collision
    only costs clients detours."""
    return int.from_bytes(hashlib.sha256(gateway_id.encode()).digest()[:8], "big") % _NODE_ID_MAX + 1


def brokers_of(heartbeats: Iterable[Heartbeat], own_id: str, *, drains: bool = False) -> list[Broker]:
    """Return the gateways with a Kafka address as brokers, sorted by node id.

    Args:
        heartbeats: Of the live gateways.
        own_id: This gateway's id.
        drains: Whether this gateway drains: it is then left out, unless it is the only broker.
    """
    found = {
        node_id(one.id): Broker(node_id(one.id), one.id, Advertised.of(one.kafka), one.zone)
        for one in heartbeats
        if one.kafka
    }
    if drains and len(found) > 1:
        found.pop(node_id(own_id), None)
    return [found[number] for number in sorted(found)]


def nearest_brokers(topic: str, brokers: Sequence[Broker]) -> Mapping[str, int]:
    """Return, for each zone, the node id of the broker from which consumers of the zone read the topic; empty if all brokers
    that name a zone are in one zone."""
    by_zone: dict[str, dict[str, int]] = {}
    for one in brokers:
        if one.zone is not None:
            by_zone.setdefault(one.zone, {})[one.gateway_id] = one.node_id
    if len(by_zone) < 2:
        return {}
    return {zone: some[str(preferred_gateway(topic, some))] for zone, some in by_zone.items()}
