"""The price of a request: CPU of a server's process for each acknowledged request of a load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness.load import LoadResult, run_load
from benchmarks.harness.pairs import Spread, ratio
from benchmarks.harness.processes import Server


@dataclass(frozen=True, slots=True)
class PricedLoad:
    """A load, and the CPU of the server in µs for each of its requests."""

    cpu_us: float
    load: LoadResult


def priced(
    server: Server, requests: Sequence[bytes], *, connections: int, seconds: float, pause_s: float = 0.0
) -> PricedLoad:
    """Run a load and measure what each request costs; raise ``RuntimeError`` if one was not acknowledged."""
    before = server.cpu_seconds()
    load = run_load(server.port, requests, connections=connections, seconds=seconds, pause_s=pause_s)
    if load.others:
        raise RuntimeError(f"not every request was acknowledged: {load.statuses}")
    return PricedLoad((server.cpu_seconds() - before) / load.answers * 1e6, load)


def price_cells(rounds: Sequence[PricedLoad], first: Sequence[PricedLoad]) -> tuple[str, ...]:
    """Return four cells: median, least and most of the rounds, and the median ratio to the first row's rounds."""
    prices = [each.cpu_us for each in rounds]
    least, middle, most = Spread(prices).cells(0)
    return middle, least, most, f"{ratio(prices, [each.cpu_us for each in first]):.0%}"
