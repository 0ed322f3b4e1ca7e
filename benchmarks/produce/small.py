"""The price of one small request: CPU of the gateway for one record in one request, over a thousand connections.

Each connection sends a record, waits for its acknowledgement, and sends the next. So a flush has many requests, and what it costs
is shared by them: the price is that of the request. Beside it is the floor of the same run: the server stack alone
(``floor_server``), and uvicorn alone (``bare_server``). The price is the CPU of the server's process.

``--beside DIRECTORY`` measures another tree of the source in the same run, turn by turn.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import gateways, in_turns
from benchmarks.harness.processes import Server, bare_server, floor_server, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each
from benchmarks.produce.price import PricedLoad, price_cells, priced

CONNECTIONS = 1_000
FLUSH_MS = (250, 50)
VALUE_BYTES = 100
ROUNDS = 4


def measure(options: Options) -> Iterator[Table]:
    """Yield one table for each store."""
    for place in each(options.store):
        yield _measured(place, options.seconds, options.beside)


def _measured(place: Store, seconds: float, beside: Path | None) -> Table:
    table = Table(
        f"One record a request over {CONNECTIONS:,} connections, {place.label}",
        ["server", "flush.ms", "requests/s", "CPU us/request", "least", "most", "of the first row", "p50 ms", "p99 ms"],
        notes=[
            f"Medians of {ROUNDS} alternating rounds of {seconds:g} s; of the first row: median of the ratios of each round.",
            f"JSON, {VALUE_BYTES} B values with keys, 8 partitions. In a closed loop flush.ms bounds the rate.",
        ],
    )
    with contextlib.ExitStack() as running:
        floors = {
            "floor: uvicorn": running.enter_context(bare_server()),
            "floor: uvicorn, FastAPI": running.enter_context(floor_server()),
        }
        servers = gateways(running, place, beside)
        loads = {}
        for flush_ms in FLUSH_MS:
            for name, server in servers.items():
                make_topic(server.port, f"small-{flush_ms}", config={"flush.ms": flush_ms})
                loads[name, flush_ms] = partial(_load, server, f"small-{flush_ms}", seconds)
        loads |= {(name, 0): partial(_load, server, "bench", seconds / 2) for name, server in floors.items()}
        runs = in_turns(loads, ROUNDS, warms_up=True)
    for (name, flush_ms), rounds in runs.items():
        first = next(base for (_, other), base in runs.items() if other == flush_ms)
        done = [each.load for each in rounds]
        table.add(
            *(name, flush_ms or "-", f"{statistics.median(load.answers / load.seconds for load in done):,.0f}"),
            *price_cells(rounds, first),
            *(f"{statistics.median(load.percentile_ms(share) for load in done):,.0f}" for share in (0.5, 0.99)),
        )
    return table


def _load(server: Server, topic: str, seconds: float) -> PricedLoad:
    return priced(server, json_requests(1, VALUE_BYTES, topics=[topic]), connections=CONNECTIONS, seconds=seconds)
