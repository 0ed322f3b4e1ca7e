"""A caller's settlement of records, and the answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """A settlement of offsets ``first`` to ``last`` of a lease. ``action``: ``accept``, ``release``, ``reject``, ``renew``."""

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
    """Whether processing has begun. False with ``release``: the delivery does not count. True with ``renew``: it counts from now
    on."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a settlement; it is not settled if the lease is over. ``locked_until_ms``: only after a ``renew``."""

    is_settled: bool
    locked_until_ms: int | None = None


EXPIRED = Result(False)
SETTLED = Result(True)


def settled_as(settlement: Settlement, transaction_id: str) -> str:
    """Return how a range is settled: the same text for a repeat."""
    return f"{settlement.action} {transaction_id}"
