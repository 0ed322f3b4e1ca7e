"""Several gateways of one store: which know each other, and which owns what."""

from __future__ import annotations

import itertools

from log_format.cluster.preferred import preferred_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.waiting import eventually


def ids(gateway: GatewayProcess) -> dict[str, str]:
    return {one["url"]: one["id"] for one in gateway.http.get("/v1/cluster").json()["gateways"]}


def owned_by(gateway: GatewayProcess, kind: str = "") -> str:
    """A name that prefers the gateway, of a topic or, with ``groups/``, of a group."""
    by_url = ids(gateway)
    names = (f"name-{number}" for number in itertools.count())
    return next(name for name in names if preferred_gateway(kind + name, by_url.values()) == by_url[gateway.url])


def know_each_other(gateways: list[GatewayProcess]) -> bool:
    return eventually(lambda: all(len(ids(gateway)) == len(gateways) for gateway in gateways))
