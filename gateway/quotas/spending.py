"""What one request uses: counted where its client arrived, told there by the gateway that served it.

Routes declare the rates that they use (``spends``). These are judged ahead of the body. How much it was they say once they know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from gateway.quotas.limits import SPAN_MS, STREAMS
from gateway.quotas.quotas import Admitted, Quotas

SPENDING: Final = "tidelog.spending"
"""Where a request's scope has it; absent with ``auth=off``."""
SPENT_HEADER: Final = b"x-tidelog-spent"
"""In an answer to another gateway: what the request used, ``name=amount`` joined by commas."""
_DECLARED: Final = "tidelog_spends"
_AMOUNT_MAX: Final = 10**15
E = TypeVar("E", bound=Callable[..., Any])


class Spending(Protocol):
    """One request's use of its principal's quotas."""

    def measures(self, quota: str) -> bool:
        """Whether it is worth measuring what the request uses."""

    def spend(self, quota: str, amount: int) -> None:
        """It used so much."""

    def pause_ms(self, quota: str) -> int:
        """How long an answer that goes on has to wait; 0: not at all."""

    def check(self, quota: str) -> None:
        """It is going to use this rate, which its route did not tell. Raises ``Throttled``."""

    def begin_stream(self) -> None:
        """It becomes an event stream. Raises ``Throttled``."""


class SpendingHere:
    """Of a client's request. ``end`` once it is over."""

    __slots__ = ("_admitted", "_is_stream", "_principal", "_quotas")

    def __init__(self, quotas: Quotas, principal: str, admitted: Admitted | None) -> None:
        """``admitted``: what ``Quotas.admit`` gave."""
        self._quotas = quotas
        self._principal = principal
        self._admitted = admitted
        self._is_stream = False

    def measures(self, quota: str) -> bool:
        """See ``Spending``."""
        return self._admitted is not None and quota in self._admitted[0].limits

    def spend(self, quota: str, amount: int) -> None:
        """See ``Spending``."""
        if self._is_stream:  # it outlives its quota
            self._quotas.spend(self._principal, quota, amount)
        elif self._admitted is not None:
            account, now_ms = self._admitted
            account.spend(quota, amount, now_ms)

    def pause_ms(self, quota: str) -> int:
        """See ``Spending``."""
        return self._quotas.pause_ms(self._principal, quota)

    def check(self, quota: str) -> None:
        """See ``Spending``."""
        self._quotas.check(self._principal, quota)

    def begin_stream(self) -> None:
        """See ``Spending``."""
        self._quotas.enter(self._principal, STREAMS)
        self._is_stream = True

    def end(self) -> None:
        """The request is over. Idempotent."""
        if self._is_stream:
            self._is_stream = False
            self._quotas.leave(self._principal, STREAMS)


class SpendingThere:
    """Of a request that another gateway passed on: it counts there, and is told in the answer's head."""

    __slots__ = ("_measured", "_spent")

    def __init__(self, measured: Callable[[str], bool]) -> None:
        """``measured``: whether the principal has a quota of this name."""
        self._measured = measured
        self._spent: dict[str, int] = {}

    def measures(self, quota: str) -> bool:
        """See ``Spending``."""
        return self._measured(quota)

    def spend(self, quota: str, amount: int) -> None:
        """See ``Spending``."""
        self._spent[quota] = self._spent.get(quota, 0) + amount

    def pause_ms(self, quota: str) -> int:
        """See ``Spending``. No answer that goes on is passed on."""
        del quota
        return 0

    def check(self, quota: str) -> None:
        """See ``Spending``. It was for the gateway where the client arrived to refuse."""

    def begin_stream(self) -> None:
        """See ``Spending``."""

    def header(self) -> bytes:
        """What was used so far; empty: nothing."""
        return ",".join(f"{quota}={amount}" for quota, amount in self._spent.items()).encode()


def spend_told(spending: Spending, header: bytes) -> None:
    """Count what another gateway says that a request used there."""
    for one in header.decode("latin-1").split(","):
        quota, _, amount = one.partition("=")
        if quota in SPAN_MS and amount.isascii() and amount.isdigit() and len(amount) < len(str(_AMOUNT_MAX)):
            spending.spend(quota, int(amount))


def spending_of(scope: Mapping[str, Any]) -> Spending | None:
    """Of the request with this scope; None with ``auth=off``."""
    found: Spending | None = scope.get(SPENDING)
    return found


def spends(*rates: str) -> Callable[[E], E]:
    """Declares the rates that an endpoint uses besides requests."""

    def declared(endpoint: E) -> E:
        setattr(endpoint, _DECLARED, rates)
        return endpoint

    return declared


def spends_of(endpoint: Callable[..., Any]) -> tuple[str, ...]:
    """What the endpoint declares."""
    rates: Iterable[str] = getattr(endpoint, _DECLARED, ())
    return tuple(rates)
