"""What quotas cost a request, and how exactly several gateways keep one.

Cost: of a request of a principal without a quota, and of one that has all of them (admitted, and its bytes counted). Error: four
gateways on one clock with heartbeats that are late by a beat (``quota_fleet``), after three beats.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from benchmarks.harness.cpu import best_cpu_us, repeated
from benchmarks.harness.options import Options
from benchmarks.harness.report import Table, held
from benchmarks.security.quota_fleet import BEAT_MS, QuotaFleet
from gateway.quotas.limits import PRODUCE_BYTES, QUOTAS
from gateway.quotas.quotas import Quotas
from gateway.quotas.sharing import Sharing
from gateway.quotas.spending import SpendingHere
from log_format.clock import SystemClock

CALLS: Final = 200_000
ROUNDS: Final = 5
RATE: Final = 1_000_000
ERROR_MAX: Final = 0.1
SPREADS: Final = {
    "even": (500_000, 500_000, 500_000, 500_000),
    "one gateway": (3_000_000, 0, 0, 0),
    "uneven": (900_000, 600_000, 200_000, 100_000),
    "just too much": (300_000, 300_000, 300_000, 300_000),
}


def measure(_options: Options) -> Iterator[Table]:
    """The two tables."""
    table = Table("quotas: CPU a request", ["principal", "µs"])
    for name, cost in _costs():
        table.add(name, f"{cost:.2f}")
    yield table
    table = Table(
        "quotas: error on four gateways after three beats",
        ["load", "bytes a request", "error", f"bound {ERROR_MAX:.0%}"],
    )
    for spread, offered in SPREADS.items():
        for request_bytes in (1_000, 90_000):
            fleet = QuotaFleet(4, RATE)
            fleet.run(offered, 3 * BEAT_MS, request_bytes=request_bytes, are_polite=True)
            passed = fleet.run(offered, 20 * BEAT_MS, request_bytes=request_bytes, are_polite=True)
            error = passed / (20 * BEAT_MS / 1000 * min(RATE, sum(offered))) - 1
            table.add(spread, request_bytes, f"{error:+.1%}", held(abs(error) <= ERROR_MAX))
    yield table


def _costs() -> Iterator[tuple[str, float]]:
    limits = dict.fromkeys(QUOTAS, 10**12)
    for name, found in (("without a quota", None), ("with all quotas", limits)):
        quotas = Quotas({"User:a": found}.get, Sharing(old_after_ms=1_000), clock=SystemClock())
        yield name, best_cpu_us(repeated(partial(_request, quotas)), calls=CALLS // ROUNDS, rounds=ROUNDS)


def _request(quotas: Quotas) -> None:
    """Do what the middleware and a route do for one request."""
    spending = SpendingHere(quotas, "User:a", quotas.admit("User:a", (PRODUCE_BYTES,)))
    if spending.measures(PRODUCE_BYTES):
        spending.spend(PRODUCE_BYTES, 100)
    spending.end()
