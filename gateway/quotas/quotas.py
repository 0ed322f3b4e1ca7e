"""All principals' quotas at one gateway.

1. A request is counted where its client arrived. Another gateway that serves it counts nothing.
2. A request passes while none of its rates is in debt. What it uses is counted once that is known.
3. Connections and event streams count while they are open, those from before the quota was set too.
4. Accounts of idle principals are forgotten with each heartbeat. Beyond ``ACCOUNTS_MAX`` the oldest goes, its debt with it.

A principal without quotas costs one look-up, and with ``auth=off`` nothing is called.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from gateway.quotas.account import Account
from gateway.quotas.limits import CONNECTIONS, REQUESTS, Limits
from gateway.quotas.sharing import DEMANDS_MAX, Demands, Sharing
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode

ACCOUNTS_MAX: Final = 10_000
"""Principals with quotas that are remembered."""
QUOTAS_BYTES_MAX: Final = ACCOUNTS_MAX * 2_560
"""What their accounts take: 2.2 KiB were measured for one with all quotas."""
OPEN_RETRY_MS: Final = 1_000
"""When to try again for a connection or stream. When one will end is not known."""
_SAID: Final = {
    "produce_bytes_per_s": "bytes produced a second",
    "fetch_bytes_per_s": "bytes fetched a second",
    "requests_per_s": "requests a second",
    "partitions_created_per_minute": "partitions created a minute",
    "connections": "connections at once",
    "event_streams": "event streams at once",
}


class Throttled(BackOff, code=ErrorCode.THROTTLED):
    """A quota is used up: 429 with ``quota`` and ``retry_after_ms``. Nothing changed."""

    def __init__(self, quota: str, limit: int, retry_after_ms: int) -> None:
        super().__init__(
            f"The quota of {limit} {_SAID[quota]} is used up. Try again in {retry_after_ms} ms.",
            quota=quota,
            retry_after_ms=retry_after_ms,
        )


Admitted = tuple[Account, int]
"""What a request counts on, and when it was admitted."""


class Quotas:
    """Belongs to the event loop. ``limits_of``: a principal's quotas, the same object until they change; None without any."""

    def __init__(
        self,
        limits_of: Callable[[str], Limits | None],
        sharing: Sharing,
        *,
        clock: Clock,
        accounts_max: int = ACCOUNTS_MAX,
    ) -> None:
        self._limits_of = limits_of
        self._sharing = sharing
        self._clock = clock
        self._accounts_max = accounts_max
        self._accounts: dict[str, Account] = {}
        self._open: Counter[tuple[str, str]] = Counter()
        self._published_ms = clock.monotonic_ms()

    def limited(self, principal: str) -> bool:
        """Whether the principal has quotas."""
        return self._limits_of(principal) is not None

    def admit(self, principal: str, rates: tuple[str, ...] = ()) -> Admitted | None:
        """A request of ``principal`` begins, which uses ``rates`` besides; None: it has no quotas. Raises ``Throttled``."""
        account = self._account(principal)
        if account is None:
            return None
        now_ms = self._clock.monotonic_ms()
        if wait_ms := account.take_request(now_ms):
            raise Throttled(REQUESTS, account.limits[REQUESTS], wait_ms)
        for quota in rates:
            if wait_ms := account.wait_ms(quota, now_ms):
                raise Throttled(quota, account.limits[quota], wait_ms)
        return account, now_ms

    def check(self, principal: str, quota: str) -> None:
        """Raise ``Throttled`` where this rate is in debt."""
        account = self._account(principal)
        if account is not None and (wait_ms := account.wait_ms(quota, self._clock.monotonic_ms())):
            raise Throttled(quota, account.limits[quota], wait_ms)

    def pause_ms(self, principal: str, quota: str) -> int:
        """How long what can't be refused any more has to wait for this rate; 0: not at all."""
        account = self._account(principal)
        return 0 if account is None else account.wait_ms(quota, self._clock.monotonic_ms())

    def spend(self, principal: str, quota: str, amount: int) -> None:
        """A request of ``principal`` used so much."""
        account = self._account(principal)
        if account is not None:
            account.spend(quota, amount, self._clock.monotonic_ms())

    def limits_rate(self, principal: str, quota: str) -> bool:
        """Whether it is worth measuring what a request uses."""
        limits = self._limits_of(principal)
        return limits is not None and quota in limits

    def enter(self, principal: str, quota: str) -> None:
        """A connection or an event stream begins; ``leave`` when it ends. Raises ``Throttled``."""
        held = self._open[principal, quota]
        account = self._account(principal)
        if account is not None:
            open_max = account.open_max(quota, self._clock.monotonic_ms())
            if open_max is not None and held >= open_max:
                account.is_touched = True
                account.refused[quota] += 1
                raise Throttled(quota, account.limits[quota], OPEN_RETRY_MS)
        self._open[principal, quota] = held + 1

    def leave(self, principal: str, quota: str) -> None:
        """What ``enter`` let in ends."""
        self._open[principal, quota] -= 1
        if not self._open[principal, quota]:
            del self._open[principal, quota]

    def held(self, principal: str, quota: str) -> int:
        """How many connections or event streams are open."""
        return self._open.get((principal, quota), 0)

    def publish(self) -> Demands:
        """The largest demands since the last call, for the next heartbeat; what is idle is forgotten."""
        now_ms = self._clock.monotonic_ms()
        beat_ms, self._published_ms = now_ms - self._published_ms, now_ms
        demands: dict[str, int] = {}
        for principal, account in list(self._accounts.items()):
            held = {quota: self.held(principal, quota) for quota in account.refused}
            if account.is_idle(now_ms) and not any(held.values()):
                del self._accounts[principal]
            else:
                demands |= account.demands(held, beat_ms, now_ms)
        largest = heapq.nlargest(DEMANDS_MAX, demands.items(), key=lambda one: one[1])
        published = dict(largest)
        self._sharing.publish(published)
        return published

    def take_in(self, of_peers: Sequence[Demands]) -> None:
        """What the live peers' heartbeats say: one each."""
        self._sharing.take_in(of_peers, self._clock.monotonic_ms())

    def _account(self, principal: str) -> Account | None:
        limits = self._limits_of(principal)
        if limits is None:
            return None
        account = self._accounts.get(principal)
        if account is not None and account.limits is limits:
            return account
        if account is not None and account.limits == limits:
            account.limits = limits
            return account
        if account is None and len(self._accounts) >= self._accounts_max:
            del self._accounts[next(iter(self._accounts))]
        self._accounts[principal] = account = Account(principal, limits, self._sharing, self._clock.monotonic_ms())
        return account


class Connection:
    """One client's connection: it counts for each principal that has used it, until it ends."""

    __slots__ = ("_principals", "_quotas")

    def __init__(self) -> None:
        self._principals: set[str] | None = None
        self._quotas: Quotas | None = None

    def used_by(self, principal: str, quotas: Quotas) -> None:
        """An authenticated request came. Raises ``Throttled``, each time until another connection ends."""
        if self._principals is None:
            self._principals, self._quotas = set(), quotas
        if principal not in self._principals:
            quotas.enter(principal, CONNECTIONS)
            self._principals.add(principal)

    @property
    def has_quotas(self) -> bool:
        """Whether a principal that has used it has any."""
        return self._quotas is not None and any(map(self._quotas.limited, self._principals or ()))

    def end(self) -> None:
        """It is closed. Idempotent."""
        if self._quotas is not None:
            for principal in self._principals or ():
                self._quotas.leave(principal, CONNECTIONS)
        self._principals = None
