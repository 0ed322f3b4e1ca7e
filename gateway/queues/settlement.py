"""What a caller asks to become of records, and the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Offsets ``first`` to ``last`` of a lease. ``action``: ``accept``, ``release``, ``reject``, ``renew``."""

    topic: str
    partition: int
    first: int
    last: int
    lease: str
    action: str
    delay_ms: int | None = None
    lock_ms: int | None = None
    reason: str | None = None
    begun: bool = True
    """False: nobody began with what is released, so the delivery does not count. With ``renew``: it counts from now on."""


@dataclass(frozen=True, slots=True)
class Result:
    """Not settled: the lease is over. ``locked_until_ms``: after a ``renew``."""

    is_settled: bool
    locked_until_ms: int | None = None


EXPIRED = Result(False)
SETTLED = Result(True)


def how(settlement: Settlement, transaction_id: str) -> str:
    """How a range is settled: a repeat has the same."""
    return f"{settlement.action} {transaction_id}"
