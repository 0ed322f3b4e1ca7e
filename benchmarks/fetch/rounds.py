"""The figures of ``history``: rounds of one way, beside the rounds of another in the same turns.

Single rounds are short, and other programs disturb some of them. So a percentile is that of the median round, and a ratio the
median of the ratios of rounds in the same turn; the lowest and the highest stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from benchmarks.fetch.small_traffic import Latencies
from benchmarks.harness.pairs import Spread
from benchmarks.harness.percentiles import percentile

P99: Final = 0.99
MEBIBYTE: Final = 2**20


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds."""

    gateway: float
    readers: float
    store: float
    clients: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """``seconds`` that counted, and what was read in them."""

    seconds: float
    latencies: Latencies
    costs: Costs
    read_bytes: int = 0
    load_average: float = 0.0


def latency(rounds: Sequence[Round], kind: str, fraction: float) -> Spread:
    """Return a percentile of each round, in ms."""
    return Spread([percentile(each.latencies[kind], fraction) for each in rounds])


def ratio(rounds: Sequence[Round], base: Sequence[Round], kind: str) -> Spread:
    """Return the 99th percentile of each round by that of the ``base`` round in the same turn."""
    own, others = latency(rounds, kind, P99), latency(base, kind, P99)
    return Spread([value / other for value, other in zip(own.values, others.values, strict=True)])


def rate(rounds: Sequence[Round]) -> Spread:
    """Return MiB/s of values."""
    return Spread([each.read_bytes / MEBIBYTE / each.seconds for each in rounds])


def by_gibibyte(rounds: Sequence[Round], alone: Sequence[Round]) -> Costs | None:
    """Return CPU seconds a GiB of values, without those of ``alone`` in the same time; None if nothing was read."""
    gibibytes = sum(each.read_bytes for each in rounds) / 2**30
    if not gibibytes:
        return None

    def share(part: str) -> float:
        base = mean(getattr(each.costs, part) / each.seconds for each in alone) if alone else 0.0
        return sum(getattr(each.costs, part) - base * each.seconds for each in rounds) / gibibytes

    return Costs(share("gateway"), share("readers"), share("store"), share("clients"))
