"""Quotas of a connection: what a request used is counted, and the connection is not read on while its caller is in debt.

A broker does the same (KIP-219): the answer tells the time, and the channel is mute for it. Only rates
that this connection uses hold it up: a consumer's heartbeats do not wait for a producer of the same principal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.quotas.limits import REQUESTS
from gateway.quotas.quotas import Quotas

PAUSE_MS_MAX: Final = 30_000
"""A longer debt is waited for in parts: by then clients take a connection for dead."""


@dataclass(slots=True)
class Rates:
    """Those that a connection has used. ``quotas`` None: there are none."""

    quotas: Quotas | None
    _used: set[str] = field(default_factory=lambda: {REQUESTS})

    def spend(self, principal: str, quota: str, amount: int) -> None:
        """A request used so much."""
        if self.quotas is not None and amount:
            self._used.add(quota)
            self.quotas.spend(principal, quota, amount)

    def pause_ms(self, principal: str) -> int:
        """How long the connection has to be mute; 0: not at all."""
        quotas = self.quotas
        if quotas is None:
            return 0
        return min(PAUSE_MS_MAX, max(quotas.pause_ms(principal, quota) for quota in self._used))
