"""How many connections a listener takes, how many from one address, and how long each may be idle."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

TOLD_MAX: Final = 32
"""Connections beyond an address's share that still get a refusal; further ones are cut without a word."""
_NETWORK_BITS: Final = 64
"""Prefix of an IPv6 address: the least that a provider gives to one customer."""


class ClientAddresses:
    """Counts the connections of each address; ``count_max`` None: no bound. Belongs to the event loop."""

    def __init__(self, count_max: int | None, *, loopback_counts: bool = True) -> None:
        self._count_max = count_max
        self._loopback_counts = loopback_counts
        self._counts: dict[str, int] = {}

    def enter(self, address: str | None) -> int:
        """Count a connection (``leave`` when it ends); returns by how many its address exceeds its share."""
        if address is None:
            return 0
        count = self._counts.get(address, 0) + 1
        self._counts[address] = count
        if self._count_max is None or (address == LOOPBACK and not self._loopback_counts):
            return 0
        return max(0, count - self._count_max)

    def leave(self, address: str) -> None:
        """The connection ended."""
        left = self._counts[address] - 1
        if left:
            self._counts[address] = left
        else:
            del self._counts[address]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Times are milliseconds. ``idle_ms``: between requests; ``head_ms``: for a request's head."""

    connections_max: int
    accepted_max: int
    """Connections beyond this are cut; between the two bounds they are told why they are not served."""
    addresses: ClientAddresses
    head_ms: int
    idle_ms: int
    body_idle_ms: int
    write_stall_ms: int


LOOPBACK: Final = "loopback"


def address_key(host: str) -> str:
    """What an address counts as: itself, its /64 for IPv6, or ``LOOPBACK``."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        if mapped is None and not address.is_loopback:
            return str(ipaddress.IPv6Network((address, _NETWORK_BITS), strict=False))
        address = mapped or address
    return LOOPBACK if address.is_loopback else str(address)
