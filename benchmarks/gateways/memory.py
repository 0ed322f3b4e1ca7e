"""The largest resident size of a gateway under load, beside its size when idle."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness.bodies import arrow_requests, json_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.processes import gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: small records and large ones, over 64 connections."""
    table = Table(
        "Memory of the gateway under load, default settings", ["load", "largest resident size, MiB", "floor: idle, MiB"]
    )
    with directory() as store, gateway(store) as server:
        idle = server.rss_peak_bytes() / 2**20
        make_topic(server.port)
        for name, requests in (
            ("JSON x 1,000, 100 B, 64 connections", json_requests(1000, 100)),
            ("Arrow x 10,000, 1 KiB, 64 connections", arrow_requests(10_000, 1024)),
        ):
            run_load(server.port, requests, connections=64, seconds=options.seconds * 2)
            table.add(name, f"{server.rss_peak_bytes() / 2**20:.0f}", f"{idle:.0f}")
    yield table
