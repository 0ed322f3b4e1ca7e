"""Counts of each client address's connections: a listener takes a bounded number from one address."""

from __future__ import annotations

import ipaddress
from typing import Final

LOOPBACK: Final = "loopback"
_NETWORK_BITS: Final = 64
"""Prefix length of an IPv6 address: the smallest network that a provider gives to one customer."""


class ClientAddresses:
    """Number of connections of each address; ``count_max`` None: no bound. Used on the event loop only."""

    def __init__(self, count_max: int | None, *, loopback_counts: bool = True) -> None:
        self._count_max = count_max
        self._loopback_counts = loopback_counts
        self._counts: dict[str, int] = {}

    def enter(self, address: str | None) -> int:
        """Count a connection (``leave`` when it ends); return by how many its address exceeds its share."""
        if address is None:
            return 0
        count = self._counts.get(address, 0) + 1
        self._counts[address] = count
        if self._count_max is None or (address == LOOPBACK and not self._loopback_counts):
            return 0
        return max(0, count - self._count_max)

    def leave(self, address: str) -> None:
        """Count a connection as ended."""
        left = self._counts[address] - 1
        if left:
            self._counts[address] = left
        else:
            del self._counts[address]


def address_key(host: str) -> str:
    """Return what an address is counted as: itself, its /64 for IPv6, or ``LOOPBACK``."""
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
