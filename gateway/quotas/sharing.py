"""A quota holds for all gateways together: each takes a part of it, by what the gateways are asked for.

1. With each heartbeat a gateway publishes its ``DEMANDS_MAX`` largest demands, as parts of their quotas. A name is a hash of
   principal and quota, so a reader of the store learns no principal.
2. Demands that fit together are granted. Each gateway adds an equal part of the rest, so that it can grow before its next beat.
   Of demands that don't fit, the smaller are granted before the larger. Either way the parts make one whole.
3. What this gateway has not published yet, or where no heartbeats come, it shares equally: quota ÷ gateways. Until the others
   have read its heartbeat, a gateway that is asked anew may so exceed the quota by that part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

DEMANDS_MAX: Final = 64
"""In one heartbeat: its size is bounded, and small demands count little."""
WHOLE: Final = 1_000_000
"""A demand for a whole quota. Larger ones count as that."""
SHARE_MIN: Final = 0.001
"""So that a debt is paid at last, also where other gateways are asked for all."""
BEATS_UNTIL_OLD: Final = 4
"""After so many beats without a look at the heartbeats, the demands seen last say nothing."""

Demands = Mapping[str, int]
"""By ``demand_name``: parts of a quota, in millionths."""


def demand_name(principal: str, quota: str) -> str:
    """What a heartbeat calls the quota of a principal: 16 hexadecimal digits."""
    return hashlib.blake2b(f"{quota}\0{principal}".encode(), digest_size=8).hexdigest()


def share(own: int, others: Sequence[int]) -> float:
    """The part of a quota for a gateway with the demand ``own`` beside gateways with the demands ``others``, in millionths."""
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


class Sharing:
    """This gateway's demands and the others', as heartbeats carry them. Belongs to the event loop."""

    def __init__(self, *, old_after_ms: int) -> None:
        self._old_after_ms = old_after_ms
        self._published: Demands = {}
        self._of_peers: Sequence[Demands] = ()
        self._looked_at_ms = 0
        self.round = 0
        """Rises when parts may have changed."""

    def publish(self, demands: Demands) -> None:
        """What this gateway's next heartbeat says."""
        self._published = demands
        self.round += 1

    def take_in(self, of_peers: Sequence[Demands], now_ms: int) -> None:
        """What the others' heartbeats say: one each."""
        self._of_peers = of_peers
        self._looked_at_ms = now_ms
        self.round += 1

    def part(self, name: str, now_ms: int) -> float:
        """This gateway's part of the quota called ``name``."""
        if not self._of_peers:
            return 1.0
        own = self._published.get(name)
        if own is None or now_ms - self._looked_at_ms > self._old_after_ms:
            return 1 / (1 + len(self._of_peers))
        return share(own, [demands.get(name, 0) for demands in self._of_peers])
