"""Quotas of a connection: usage is counted, and the connection is muted while its caller is in debt.

A broker does the same (KIP-219): the answer names the time for which the channel is muted. Only quotas that this connection has
used mute it: a consumer's heartbeats are not delayed by a producer of the same principal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from gateway.quotas.limits import REQUESTS
from gateway.quotas.quotas import Quotas

PAUSE_MS_MAX: Final = 30_000
"""Longest pause after one answer: after a longer one, clients consider a connection dead. The rest of a debt is paid later."""


@dataclass(slots=True)
class Rates:
    """The quotas that a connection has used. ``quotas`` None: there are no quotas."""

    quotas: Quotas | None
    _used: set[str] = field(default_factory=lambda: {REQUESTS})

    def spend(self, principal: str, quota: str, amount: int) -> None:
        """Charge an amount to the principal's quota."""
        if self.quotas is not None and amount:
            self._used.add(quota)
            self.quotas.spend(principal, quota, amount)

    def pause_ms(self, principal: str) -> int:
        """Return for how long the connection has to be muted; 0: not at all."""
        quotas = self.quotas
        if quotas is None:
            return 0
        return min(PAUSE_MS_MAX, max(quotas.pause_ms(principal, quota) for quota in self._used))
