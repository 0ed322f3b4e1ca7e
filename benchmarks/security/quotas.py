"""What quotas cost a request: of a principal without a quota, and of one that has all (admitted, and its bytes counted)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.harness.cpu import best_cpu_us, repeated
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from gateway.quotas.limits import PRODUCE_BYTES, QUOTAS
from gateway.quotas.quotas import Quotas
from gateway.quotas.sharing import QuotaSharing
from gateway.quotas.spending import LocalSpending
from log_format.clock import SystemClock

CALLS: Final = 200_000
ROUNDS: Final = 5


def measure(_options: Options) -> Iterator[Table]:
    """Yield one table."""
    table = Table("quotas: CPU a request", ["principal", "µs"])
    for name, cost in _costs():
        table.add(name, f"{cost:.2f}")
    yield table


def _costs() -> Iterator[tuple[str, float]]:
    limits = dict.fromkeys(QUOTAS, 10**12)
    for name, found in (("without a quota", None), ("with all quotas", limits)):
        quotas = Quotas({"User:a": found}.get, QuotaSharing(old_after_ms=1_000), clock=SystemClock())
        yield name, best_cpu_us(repeated(partial(_request, quotas)), calls=CALLS // ROUNDS, rounds=ROUNDS)


def _request(quotas: Quotas) -> None:
    """Do what the middleware and a route do for one request."""
    spending = LocalSpending(quotas, "User:a", quotas.admit("User:a", (PRODUCE_BYTES,)))
    if spending.measures(PRODUCE_BYTES):
        spending.spend(PRODUCE_BYTES, 100)
    spending.end()
