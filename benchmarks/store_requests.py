"""What a gateway asks of the store, by MinIO's own count: for each flush under three loads, and in an idle second."""

from __future__ import annotations

import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bodies import arrow_requests, json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call, gateway
from benchmarks.produce import make_topic
from benchmarks.report import Table

METRICS_KEPT_SECONDS = 12
"""MinIO's counts are up to ten seconds old."""
SECONDS_MIN = 90.0
"""So long a load has enough flushes that what a gateway does every ten seconds does not look like a part of each. What it does
while MinIO's counts are old is counted, too."""
QUIET_SECONDS = 120.0
"""After so long nothing is left of the start, and looks at idle tables are as rare as they get."""
IDLE_SECONDS = 60.0
KINDS = {"PUT": "put", "GET": "get", "LIST": "list", "HEAD": "head", "DELETE": "delete"}


def measure(
    store: str, environment: dict[str, str], minio: Server, seconds: float, beside: Path | None
) -> Iterator[Table]:
    """Of this tree's gateway and, if given, of another's."""
    loads = Table(
        "Requests to the store, MinIO",
        ["load", "MiB produced", "flushes", *KINDS, "requests a flush", "floor: a segment and a commit"],
    )
    idle = Table("Requests to the store, MinIO, of an idle gateway", ["gateway", *KINDS, "a second"])
    trees = [("", None)] if beside is None else [("", None), (f", {beside.name}", beside)]
    for suffix, tree in trees:
        with gateway(f"{store}/requests{suffix.strip(', ')}", environment, directory=tree) as server:
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


def _by_kind(counts: Counter[str]) -> list[int]:
    return [sum(count for api, count in counts.items() if api.startswith(kind)) for kind in KINDS.values()]


def _version(server: Server) -> int:
    version = call(server.port, "GET", "/v1/topics/bench")["table_version"]
    assert isinstance(version, int)
    return version


def _counts(server: Server) -> Counter[str]:
    time.sleep(METRICS_KEPT_SECONDS)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/minio/v2/metrics/cluster", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'minio_s3_requests_total\{api="(\w+)"[^}]*\} ([0-9.e+]+)', text)
    return Counter({name: int(float(value)) for name, value in found})
