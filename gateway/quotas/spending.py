"""The usage of one request: charged where its client arrived, and reported to there by the gateway that served it.

Routes declare the rates that they use (``spends``). These are checked before the body is read. Routes report the amount once they
know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from gateway.quotas.limits import SPAN_MS, STREAMS
from gateway.quotas.quotas import Admitted, Quotas

SPENDING: Final = "tidelog.spending"
"""Key of the usage in a request's scope; absent with ``auth=off``."""
SPENT_HEADER: Final = b"x-tidelog-spent"
"""Header of an answer to another gateway: the usage of the request, ``name=amount`` joined by commas."""
_DECLARED: Final = "tidelog_spends"
_AMOUNT_MAX: Final = 10**15
E = TypeVar("E", bound=Callable[..., Any])


class Spending(Protocol):
    """One request's use of its principal's quotas."""

    def measures(self, quota: str) -> bool:
        """Return whether usage of this quota has to be measured."""

    def spend(self, quota: str, amount: int) -> None:
        """Charge an amount."""

    def pause_ms(self, quota: str) -> int:
        """Return how long a continuing answer has to wait; 0: not at all."""

    def check(self, quota: str) -> None:
        """Check a rate that the route did not declare. Raise ``Throttled``."""

    def begin_stream(self) -> None:
        """Count the request as an event stream. Raise ``Throttled``."""


class LocalSpending:
    """Usage of a client's request. Call ``end`` once the request is over."""

    __slots__ = ("_admitted", "_is_stream", "_principal", "_quotas")

    def __init__(self, quotas: Quotas, principal: str, admitted: Admitted | None) -> None:
        """Store the parts. ``admitted``: result of ``Quotas.admit``."""
        self._quotas = quotas
        self._principal = principal
        self._admitted = admitted
        self._is_stream = False

    def measures(self, quota: str) -> bool:
        """Return whether usage of this quota has to be measured."""
        return self._admitted is not None and quota in self._admitted[0].limits

    def spend(self, quota: str, amount: int) -> None:
        """Charge an amount."""
        if self._is_stream:  # a stream may outlive the quotas of its admission
            self._quotas.spend(self._principal, quota, amount)
        elif self._admitted is not None:
            account, now_ms = self._admitted
            account.spend(quota, amount, now_ms)

    def pause_ms(self, quota: str) -> int:
        """Return how long a continuing answer has to wait."""
        return self._quotas.pause_ms(self._principal, quota)

    def check(self, quota: str) -> None:
        """Check a rate that the route did not declare. Raise ``Throttled``."""
        self._quotas.check(self._principal, quota)

    def begin_stream(self) -> None:
        """Count the request as an event stream. Raise ``Throttled``."""
        self._quotas.enter(self._principal, STREAMS)
        self._is_stream = True

    def end(self) -> None:
        """Uncount the event stream, if it is one. Idempotent."""
        if self._is_stream:
            self._is_stream = False
            self._quotas.leave(self._principal, STREAMS)


class ForwardedSpending:
    """Usage of a request that another gateway forwarded: charged there, and reported in the answer's head."""

    __slots__ = ("_measured", "_spent")

    def __init__(self, measured: Callable[[str], bool]) -> None:
        """Store the parts. ``measured``: whether the principal has a quota of this name."""
        self._measured = measured
        self._spent: dict[str, int] = {}

    def measures(self, quota: str) -> bool:
        """Return whether usage of this quota has to be measured."""
        return self._measured(quota)

    def spend(self, quota: str, amount: int) -> None:
        """Add an amount to the report."""
        self._spent[quota] = self._spent.get(quota, 0) + amount

    def pause_ms(self, quota: str) -> int:
        """Return 0: no continuing answer is forwarded."""
        del quota
        return 0

    def check(self, quota: str) -> None:
        """Do nothing: the gateway where the client arrived has checked."""

    def begin_stream(self) -> None:
        """Do nothing: no event stream is forwarded."""

    def header(self) -> bytes:
        """Return the report of the usage so far; empty if there is none."""
        return ",".join(f"{quota}={amount}" for quota, amount in self._spent.items()).encode()


def charge_reported(spending: Spending, header: bytes) -> None:
    """Charge the usage that another gateway reports."""
    for one in header.decode("latin-1").split(","):
        quota, _, amount = one.partition("=")
        if quota in SPAN_MS and amount.isascii() and amount.isdigit() and len(amount) < len(str(_AMOUNT_MAX)):
            spending.spend(quota, int(amount))


def spending_of(scope: Mapping[str, Any]) -> Spending | None:
    """Return the usage of the request with this scope; None with ``auth=off``."""
    found: Spending | None = scope.get(SPENDING)
    return found


def spends(*rates: str) -> Callable[[E], E]:
    """Declare the rates that an endpoint uses besides requests."""

    def declared(endpoint: E) -> E:
        setattr(endpoint, _DECLARED, rates)
        return endpoint

    return declared


def spends_of(endpoint: Callable[..., Any]) -> tuple[str, ...]:
    """Return the rates that the endpoint declares."""
    rates: Iterable[str] = getattr(endpoint, _DECLARED, ())
    return tuple(rates)
