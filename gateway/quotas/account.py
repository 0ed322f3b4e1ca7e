"""One principal's use of its quotas at this gateway: a bucket for each rate, and the demand."""

from __future__ import annotations

import math

from gateway.quotas.bucket import Bucket
from gateway.quotas.limits import COUNTS, REQUESTS, SPAN_MS, Limits
from gateway.quotas.sharing import WHOLE, QuotaSharing, demand_name


class _Rate:
    """One rate; ``asked``, ``passed``, ``spent``: since the last heartbeat."""

    __slots__ = ("asked", "bucket", "limit", "name", "part", "passed", "published", "span_ms", "spent")

    def __init__(self, name: str, limit: int, span_ms: int, *, part: float, now_ms: int) -> None:
        self.name = name
        self.limit = limit
        self.span_ms = span_ms
        self.part = part
        self.bucket = Bucket(limit, span_ms, now_ms=now_ms, share=part)
        self.asked = self.passed = self.spent = self.published = 0

    def demand(self, beat_ms: int, now_ms: int) -> int:
        """Return the demand of the last ``beat_ms``, in millionths of the quota, and restart counting.

        Refused requests count as large as those that passed. At least a quarter of the last demand is kept, since requests come
        unevenly.
        """
        used = self.spent / (self.limit * max(1, beat_ms) / self.span_ms)
        if self.bucket.wait_ms(now_ms):
            used = max(used, self.part)  # a debt takes up the whole part
        refused = self.asked - self.passed
        wanted = used * (1 + (refused / self.passed if self.passed else 1) if refused else 1)
        self.asked = self.passed = self.spent = 0
        self.published = max(min(WHOLE, int(wanted * WHOLE)), self.published // 4)
        return self.published


class Account:
    """One principal's account. Used on the event loop only. ``limits``: its quotas, at least one."""

    __slots__ = ("_count_names", "_rates", "_round", "_sharing", "is_touched", "limits", "refused")

    def __init__(self, principal: str, limits: Limits, sharing: QuotaSharing, now_ms: int) -> None:
        self.limits = limits
        self._sharing = sharing
        self._rates: dict[str, _Rate] = {}
        for quota, span_ms in SPAN_MS.items():
            if quota in limits:
                name = demand_name(principal, quota)
                part = sharing.part(name, now_ms)
                self._rates[quota] = _Rate(name, limits[quota], span_ms, part=part, now_ms=now_ms)
        self._count_names = {quota: demand_name(principal, quota) for quota in COUNTS if quota in limits}
        self.refused = dict.fromkeys(self._count_names, 0)
        """Refusals of each count since the last heartbeat."""
        self.is_touched = True
        """Whether the account was used since the last heartbeat."""
        self._round = sharing.round

    def wait_ms(self, quota: str, now_ms: int) -> int:
        """Return how long until a request passes this rate; 0: it passes now."""
        rate = self._rates.get(quota)
        if rate is None:
            return 0
        if self._round != self._sharing.round:
            self._take_parts(now_ms)
        self.is_touched = True
        rate.asked += 1
        wait_ms = rate.bucket.wait_ms(now_ms)
        if not wait_ms:
            rate.passed += 1
        return wait_ms

    def take_request(self, now_ms: int) -> int:
        """Return how long until a request passes the rate of requests; 0: it passes now, and is counted."""
        wait_ms = self.wait_ms(REQUESTS, now_ms)
        if not wait_ms and (rate := self._rates.get(REQUESTS)) is not None:
            rate.spent += 1
            rate.bucket.spend(1, now_ms)
        return wait_ms

    def spend(self, quota: str, amount: int, now_ms: int) -> None:
        """Charge the usage of a request that passed."""
        rate = self._rates.get(quota)
        if rate is not None:
            self.is_touched = True
            rate.spent += amount
            rate.bucket.spend(amount, now_ms)

    def limits_rate(self, quota: str) -> bool:
        """Return whether this rate is limited."""
        return quota in self._rates

    def open_max(self, quota: str, now_ms: int) -> int | None:
        """Return how many connections or streams may be open here; None: any number."""
        name = self._count_names.get(quota)
        if name is None:
            return None
        return math.ceil(self.limits[quota] * self._sharing.part(name, now_ms))

    def demands(self, held: dict[str, int], beat_ms: int, now_ms: int) -> dict[str, int]:
        """Return the demands above 0, by name. ``held``: how much of each count is open."""
        found = {rate.name: rate.demand(beat_ms, now_ms) for rate in self._rates.values()}
        for quota, name in self._count_names.items():
            wanted = held.get(quota, 0) + self.refused[quota]
            found[name] = min(WHOLE, wanted * WHOLE // self.limits[quota])
            self.refused[quota] = 0
        self.is_touched = False
        return {name: demand for name, demand in found.items() if demand}

    def is_idle(self, now_ms: int) -> bool:
        """Return whether the account can be dropped without effect, provided that nothing of it is open."""
        return not self.is_touched and all(
            rate.bucket.is_full(now_ms) and not rate.published for rate in self._rates.values()
        )

    def _take_parts(self, now_ms: int) -> None:
        self._round = self._sharing.round
        for rate in self._rates.values():
            part = self._sharing.part(rate.name, now_ms)
            if part != rate.part:
                rate.part = part
                rate.bucket.set_share(part, now_ms)
