"""All principals' quotas at one gateway.

1. A request is counted where its client arrived. Another gateway that serves it counts nothing.
2. A request passes while none of its rates is in debt. Its usage is charged once that is known.
3. Connections and event streams count while they are open, including those opened before the quota was set.
4. Accounts of idle principals are dropped with each heartbeat. Beyond ``ACCOUNTS_MAX`` the oldest is dropped, and its debt with
   it.

A principal without quotas costs one look-up, and with ``auth=off`` nothing is called.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from gateway.quotas.account import Account
from gateway.quotas.limits import CONNECTIONS, REQUESTS, Limits
from gateway.quotas.sharing import DEMANDS_MAX, Demands, QuotaSharing
from log_format.clock import Clock
from log_format.errors import BackOff, ErrorCode

ACCOUNTS_MAX: Final = 10_000
"""Most principals with quotas that have an account."""
QUOTAS_BYTES_MAX: Final = ACCOUNTS_MAX * 2_560
"""Memory of the accounts: 2.2 KiB were measured for one with all quotas."""
OPEN_RETRY_MS: Final = 1_000
"""Time to wait before another try for a connection or stream, since it is not known when one will end."""
_SAID: Final = {
    "produce_bytes_per_s": "bytes produced a second",
    "fetch_bytes_per_s": "bytes fetched a second",
    "requests_per_s": "requests a second",
    "partitions_created_per_minute": "partitions created a minute",
    "connections": "connections at once",
    "event_streams": "event streams at once",
}


class Throttled(BackOff, code=ErrorCode.THROTTLED):
    """A quota is used up: 429 with ``quota`` and ``retry_after_ms``. Nothing was changed."""

    def __init__(self, quota: str, limit: int, retry_after_ms: int) -> None:
        super().__init__(
            f"The quota of {limit} {_SAID[quota]} is used up. Try again in {retry_after_ms} ms.",
            quota=quota,
            retry_after_ms=retry_after_ms,
        )


Admitted = tuple[Account, int]
"""The account that a request is charged to, and the time of its admission."""


class Quotas:
    """The quotas of all principals. Used on the event loop only.

    ``limits_of``: returns a principal's quotas, the same object until they change; None without quotas.
    """

    def __init__(
        self,
        limits_of: Callable[[str], Limits | None],
        sharing: QuotaSharing,
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
        """Return whether the principal has quotas."""
        return self._limits_of(principal) is not None

    def admit(self, principal: str, rates: tuple[str, ...] = ()) -> Admitted | None:
        """Admit a request of ``principal`` that uses ``rates`` besides. Return what it is charged to; None: no quotas. Raise
        ``Throttled``."""
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
        """Raise ``Throttled`` if this rate is in debt."""
        account = self._account(principal)
        if account is not None and (wait_ms := account.wait_ms(quota, self._clock.monotonic_ms())):
            raise Throttled(quota, account.limits[quota], wait_ms)

    def pause_ms(self, principal: str, quota: str) -> int:
        """Return how long an answer that can't be refused any more has to wait for this rate; 0: not at all."""
        account = self._account(principal)
        return 0 if account is None else account.wait_ms(quota, self._clock.monotonic_ms())

    def spend(self, principal: str, quota: str, amount: int) -> None:
        """Charge the usage of a request of ``principal``."""
        account = self._account(principal)
        if account is not None:
            account.spend(quota, amount, self._clock.monotonic_ms())

    def limits_rate(self, principal: str, quota: str) -> bool:
        """Return whether usage of this quota has to be measured."""
        limits = self._limits_of(principal)
        return limits is not None and quota in limits

    def enter(self, principal: str, quota: str) -> None:
        """Count a new connection or event stream; call ``leave`` when it ends. Raise ``Throttled``."""
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
        """Uncount a connection or event stream that ``enter`` counted."""
        self._open[principal, quota] -= 1
        if not self._open[principal, quota]:
            del self._open[principal, quota]

    def open_count(self, principal: str, quota: str) -> int:
        """Return how many connections or event streams are open."""
        return self._open.get((principal, quota), 0)

    def publish(self) -> Demands:
        """Return the largest demands since the last call, for the next heartbeat; drop idle accounts."""
        now_ms = self._clock.monotonic_ms()
        beat_ms, self._published_ms = now_ms - self._published_ms, now_ms
        demands: dict[str, int] = {}
        for principal, account in list(self._accounts.items()):
            held = {quota: self.open_count(principal, quota) for quota in account.refused}
            if account.is_idle(now_ms) and not any(held.values()):
                del self._accounts[principal]
            else:
                demands |= account.demands(held, beat_ms, now_ms)
        largest = heapq.nlargest(DEMANDS_MAX, demands.items(), key=lambda one: one[1])
        published = dict(largest)
        self._sharing.publish(published)
        return published

    def update_from_peers(self, of_peers: Sequence[Demands]) -> None:
        """Take in the demands of the live peers' heartbeats, one mapping for each peer."""
        self._sharing.update_from_peers(of_peers, self._clock.monotonic_ms())

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
        """Count the connection for the principal of an authenticated request. Raise ``Throttled``, each time until another one
        ends."""
        if self._principals is None:
            self._principals, self._quotas = set(), quotas
        if principal not in self._principals:
            quotas.enter(principal, CONNECTIONS)
            self._principals.add(principal)

    @property
    def has_quotas(self) -> bool:
        """Whether any principal that has used the connection has quotas."""
        return self._quotas is not None and any(map(self._quotas.limited, self._principals or ()))

    def end(self) -> None:
        """Uncount the closed connection. Idempotent."""
        if self._quotas is not None:
            for principal in self._principals or ():
                self._quotas.leave(principal, CONNECTIONS)
        self._principals = None
