"""Sharing of quotas, which hold for all gateways together: each gateway takes a part, by the demand at each.

1. With each heartbeat a gateway publishes its ``DEMANDS_MAX`` largest demands, as parts of their quotas. Their names are hashes
   of principal and quota, so a reader of the store learns no principals.
2. Demands that fit together are granted. Each gateway also gets an equal part of the rest, so that it can grow before its next
   beat. Of demands that don't fit, the smaller ones are granted before the larger. Either way the parts add up to one.
3. Quotas that this gateway has not published yet, or all if no heartbeats arrive, are shared equally: quota ÷ gateways. Until the
   others have read its heartbeat, a gateway with new demand may exceed the quota by that part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

DEMANDS_MAX: Final = 64
"""Most demands in one heartbeat: this bounds its size, and small demands count little."""
WHOLE: Final = 1_000_000
"""A demand for a whole quota. Larger demands count as this."""
SHARE_MIN: Final = 0.001
"""Least part of a quota, so that a debt is paid at last even if other gateways demand the whole quota."""
BEATS_UNTIL_STALE: Final = 4
"""Beats without a look at the heartbeats after which the last demands are stale."""

Demands = Mapping[str, int]
"""Parts of quotas in millionths, by ``demand_name``."""


def demand_name(principal: str, quota: str) -> str:
    """Return the name of a principal's quota in heartbeats: 16 hexadecimal digits."""
    return hashlib.blake2b(f"{quota}\0{principal}".encode(), digest_size=8).hexdigest()


def share(own: int, others: Sequence[int]) -> float:
    """Return the part of a quota for a gateway with the demand ``own`` if other gateways have the demands ``others``, in
    millionths."""
    demands = sorted((own, *others))
    spare = WHOLE - sum(demands)
    if spare >= 0:
        return max(SHARE_MIN, (own + spare / len(demands)) / WHOLE)
    left = float(WHOLE)
    for number, demand in enumerate(demands):
        equal = left / (len(demands) - number)
        if demand >= equal:
            return max(SHARE_MIN, min(own, equal) / WHOLE)
        left -= demand
    raise AssertionError("demands beyond the whole leave one that exceeds an equal part")


class QuotaSharing:
    """The demands of this gateway and of the others, as heartbeats carry them. Used on the event loop only."""

    def __init__(self, *, old_after_ms: int) -> None:
        self._old_after_ms = old_after_ms
        self._published: Demands = {}
        self._of_peers: Sequence[Demands] = ()
        self._looked_at_ms = 0
        self.round = 0
        """Number that increases when parts may have changed."""

    def publish(self, demands: Demands) -> None:
        """Set the demands in this gateway's next heartbeat."""
        self._published = demands
        self.round += 1

    def update_from_peers(self, of_peers: Sequence[Demands], now_ms: int) -> None:
        """Take in the demands of the others' heartbeats, one mapping for each peer."""
        self._of_peers = of_peers
        self._looked_at_ms = now_ms
        self.round += 1

    def part(self, name: str, now_ms: int) -> float:
        """Return this gateway's part of the quota called ``name``."""
        if not self._of_peers:
            return 1.0
        own = self._published.get(name)
        if own is None or now_ms - self._looked_at_ms > self._old_after_ms:
            return 1 / (1 + len(self._of_peers))
        return share(own, [demands.get(name, 0) for demands in self._of_peers])
