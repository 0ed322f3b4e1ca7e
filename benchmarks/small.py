"""The price of one small request: CPU of the gateway for one record in one request, over a thousand connections.

Each connection sends a record, waits for its acknowledgement, and sends the next. So a flush has many requests, and what it costs
is shared by them: the price is that of the request. Beside it is the floor of the same run: the server stack alone
(``floor_server``), and uvicorn alone (``bare_server``). The price is user and system time of the server's process.

``--beside DIRECTORY`` measures another tree of the source in the same run, turn by turn.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.bodies import json_requests
from benchmarks.load import LoadResult, run_load
from benchmarks.processes import Server, bare_server, floor_server, gateway
from benchmarks.produce import make_topic
from benchmarks.report import Table

CONNECTIONS = 1_000
FLUSH_MS = (250, 50)
VALUE_BYTES = 100
ROUNDS = 4
THIS = Path(__file__).parents[1]


def measure(
    uri: str, environment: Mapping[str, str], seconds: float, store: str, beside: Path | None
) -> Iterator[Table]:
    """One table for one store. ``seconds``: of each load."""
    trees = ([("before", beside)] if beside is not None else []) + [("this tree", THIS)]
    table = Table(
        f"One record a request over {CONNECTIONS:,} connections, {store}",
        ["server", "flush.ms", "requests/s", "CPU us/request", "least", "most", "of the first row", "p50 ms", "p99 ms"],
        notes=[
            f"Medians of {ROUNDS} rounds of {seconds:g} s, in turns; of the first row: of the ratios of each round.",
            f"JSON, {VALUE_BYTES} B values with keys, 8 partitions. In a closed loop flush.ms bounds the rate.",
        ],
    )
    with contextlib.ExitStack() as running:
        floors = {
            "floor: uvicorn": running.enter_context(bare_server()),
            "floor: uvicorn, FastAPI": running.enter_context(floor_server()),
        }
        gateways = {
            name: running.enter_context(
                gateway(f"{uri}/{name.replace(' ', '-')}", dict(environment), directory=directory)
            )
            for name, directory in trees
        }
        runs: dict[tuple[str, int], list[tuple[float, LoadResult]]] = {}
        topics = {flush_ms: f"small-{flush_ms}" for flush_ms in FLUSH_MS}
        for server in gateways.values():
            for flush_ms, topic in topics.items():
                make_topic(server.port, topic, **{"flush.ms": flush_ms})
        for number in range(-1, ROUNDS):
            for flush_ms, topic in topics.items():
                for name, server in gateways.items():
                    done = _load(server, topic, seconds)
                    if number >= 0:  # the first warms caches, and opens topics
                        runs.setdefault((name, flush_ms), []).append(done)
            for name, server in floors.items():
                done = _load(server, "bench", seconds / 2)
                if number >= 0:
                    runs.setdefault((name, 0), []).append(done)
    for (name, flush_ms), found in runs.items():
        first = next(price for (_, other), price in runs.items() if other == flush_ms)
        _add(table, name, flush_ms, found, first)
    yield table


def _load(server: Server, topic: str, seconds: float) -> tuple[float, LoadResult]:
    """CPU of the server for each request in µs, and the load's result."""
    requests = json_requests(1, VALUE_BYTES, topics=[topic])
    before = server.cpu_seconds()
    done = run_load(server.port, requests, connections=CONNECTIONS, seconds=seconds)
    if done.answers < sum(done.statuses.values()):
        raise RuntimeError(f"not every request was acknowledged: {done.statuses}")
    return (server.cpu_seconds() - before) / done.answers * 1e6, done


def _add(
    table: Table,
    name: str,
    flush_ms: int,
    found: list[tuple[float, LoadResult]],
    first: list[tuple[float, LoadResult]],
) -> None:
    prices = [price for price, _ in found]
    ratios = [price / other for price, (other, _) in zip(prices, first, strict=True)]
    loads = [load for _, load in found]
    table.add(
        name,
        flush_ms or "-",
        f"{statistics.median(load.answers / load.seconds for load in loads):,.0f}",
        *(f"{price:,.0f}" for price in (statistics.median(prices), min(prices), max(prices))),
        f"{statistics.median(ratios):.0%}",
        *(f"{statistics.median(load.percentile_ms(share) for load in loads):,.0f}" for share in (0.5, 0.99)),
    )
