"""What a gateway asks of the store, by MinIO's own count: for each flush under three loads, and in an idle second."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness.bodies import arrow_requests, json_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.metrics import metrics
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import sources, store_of
from benchmarks.harness.processes import Server, call, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, store

METRICS_KEPT_SECONDS = 12
"""MinIO's counts are up to ten seconds old."""
SECONDS_MIN = 90.0
"""So long a load has enough flushes that what a gateway does every ten seconds does not look like a part of each. What it does
while MinIO's counts are old is counted, too."""
QUIET_SECONDS = 120.0
"""After so long nothing is left of the start, and looks at idle tables are as rare as they get."""
IDLE_SECONDS = 60.0
KINDS = {"PUT": "put", "GET": "get", "LIST": "list", "HEAD": "head", "DELETE": "delete"}


def measure(options: Options) -> Iterator[Table]:
    """Yield two tables: a loaded gateway and an idle one. Without MinIO, whose count this is, yield none."""
    if "minio" in options.store:
        with store("minio") as place:
            yield from _measured(place, options.seconds, options.beside)


def _measured(place: Store, seconds: float, beside: Path | None) -> Iterator[Table]:
    (minio,) = place.servers
    loads = Table(
        "Requests to the store, MinIO",
        ["load", "MiB produced", "flushes", *KINDS, "requests a flush", "floor: a segment and a commit"],
    )
    idle = Table("Requests to the store, MinIO, of an idle gateway", ["gateway", *KINDS, "a second"])
    for name, tree in sources(beside).items():
        suffix = "" if beside is None else f", {name}"
        with gateway(store_of(place, name), place.environment, directory=tree) as server:
            make_topic(server.port)
            time.sleep(QUIET_SECONDS)
            before = _counts(minio)
            time.sleep(IDLE_SECONDS - METRICS_KEPT_SECONDS)
            counts = _counts(minio) - before
            idle.add(f"alone{suffix}", *_by_kind(counts), f"{counts.total() / IDLE_SECONDS:.2f}")
            _loaded(loads, server, minio, max(seconds, SECONDS_MIN), suffix)
    yield loads
    yield idle


def _loaded(table: Table, server: Server, minio: Server, seconds: float, suffix: str) -> None:
    for name, requests, mib, connections in (
        ("JSON x 1,000, 100 B, 16 connections", json_requests(1000, 100), 1000 * 100 / 2**20, 16),
        ("JSON x 1, 100 B, 1 connection", json_requests(1, 100), 100 / 2**20, 1),
        ("Arrow x 10,000, 100 B, 16 connections", arrow_requests(10_000, 100), 10_000 * 100 / 2**20, 16),
    ):
        before, version = _counts(minio), _version(server)
        done = run_load(server.port, requests, connections=connections, seconds=seconds)
        flushes = _version(server) - version
        counts = _counts(minio) - before
        per_flush = f"{counts.total() / flushes:.2f}"
        table.add(name + suffix, f"{done.answers * mib:.1f}", flushes, *_by_kind(counts), per_flush, 2)


def _by_kind(counts: Counter[tuple[str, ...]]) -> list[int]:
    return [sum(count for (api,), count in counts.items() if api.startswith(kind)) for kind in KINDS.values()]


def _version(server: Server) -> int:
    version: int = call(server.port, "GET", "/v1/topics/bench")["table_version"]
    return version


def _counts(server: Server) -> Counter[tuple[str, ...]]:
    time.sleep(METRICS_KEPT_SECONDS)
    return metrics(server.port, "/minio/v2/metrics/cluster").counts("minio_s3_requests_total", "api")
