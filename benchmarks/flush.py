"""The price of one small own flush: CPU of the gateway for one request of one record, one segment and one commit of its topic.

Each topic has one connection, which waits for its acknowledgement, so every request is a flush of its own. The gateway is far
from busy: contention of its threads is no part of the price. The price is user and system time of the gateway's process alone.

The parts are the same functions called alone (``flush_parts``). What is left are the hand-overs between event loop and threads,
tasks and timers, metrics, checkpoints, and caches that were cold.

``--beside DIRECTORY`` measures another tree of the source in the same run, turn by turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.bodies import json_requests
from benchmarks.load import request, run_load
from benchmarks.processes import Server, gateway
from benchmarks.produce import make_topic
from benchmarks.report import Table

TOPICS = 40
PAUSE_S = 0.35
"""About 100 flushes a second."""
FLUSH_MS = 50
ROUNDS = 8
PARTS_ROUNDS = 3
THIS = Path(__file__).parents[1]


def measure(
    uri: str, environment: Mapping[str, str], seconds: float, store: str, beside: Path | None
) -> Iterator[Table]:
    """Two tables for one store: the whole, and its parts. ``seconds``: of each load."""
    trees = ([("before", beside)] if beside is not None else []) + [("this tree", THIS)]
    table = Table(
        f"One small own flush, {store}",
        [
            "source",
            "flushes",
            "CPU us/flush",
            "least",
            "most",
            "of the first row",
            "a request without records",
            "p50 ms",
            "p99 ms",
        ],
        notes=[
            f"Medians of {ROUNDS} rounds, which the sources take in turns; of the first row: of the ratios of each round.",
            f"About 100 flushes a second over {TOPICS} topics, where the machine has nothing else to do.",
        ],
    )
    with contextlib.ExitStack() as running:
        servers = {
            name: running.enter_context(
                gateway(f"{uri}/{name.replace(' ', '-')}", dict(environment), directory=directory)
            )
            for name, directory in trees
        }
        names = [f"flush-{number}" for number in range(TOPICS)]
        for server in servers.values():
            for name in names:
                _make_own(server.port, name)
        whole: dict[str, list[float]] = {name: [] for name in servers}
        bare: dict[str, list[float]] = {name: [] for name in servers}
        latencies: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(-1, ROUNDS):
            for name, server in servers.items():
                cost, waits = _cost(server, json_requests(1, 100, variants=4, topics=names), seconds)
                empty, _ = _cost(server, _without_records(names), seconds / 2)
                if number >= 0:  # the first warms caches, and opens topics
                    whole[name].append(cost)
                    bare[name].append(empty)
                    latencies[name] += waits
    first = whole[trees[0][0]]
    for name in servers:
        ratios = [own / other for own, other in zip(whole[name], first, strict=True)]
        ordered = sorted(latencies[name])
        table.add(
            name,
            len(ordered),
            f"{statistics.median(whole[name]):,.0f}",
            f"{min(whole[name]):,.0f}",
            f"{max(whole[name]):,.0f}",
            f"{statistics.median(ratios):.0%}",
            f"{statistics.median(bare[name]):,.0f}",
            f"{statistics.median(ordered):.0f}",
            f"{ordered[int(len(ordered) * 0.99)]:.0f}",
        )
    yield table
    yield _parts(uri, environment, store, trees, {name: statistics.median(whole[name]) for name in whole})


def _cost(server: Server, requests: Sequence[bytes], seconds: float) -> tuple[float, list[float]]:
    """CPU of the server for each request in µs, and how long each took."""
    before = server.cpu_seconds()
    done = run_load(server.port, requests, connections=TOPICS, seconds=seconds, pause_s=PAUSE_S)
    if done.answers < sum(done.statuses.values()):
        raise RuntimeError(f"not every request was acknowledged: {done.statuses}")
    return (server.cpu_seconds() - before) / done.answers * 1e6, done.latencies_ms


def _make_own(port: int, topic: str) -> None:
    """Create a topic that keeps its own commits.

    So many topics that flush so often would go to a journal, and share their flushes. A source from before journals does
    not know the setting, and needs none.
    """
    try:
        make_topic(port, topic, **{"flush.ms": FLUSH_MS, "commit.mode": "own"})
    except urllib.error.HTTPError as error:
        if error.code != 400:
            raise
        make_topic(port, topic, **{"flush.ms": FLUSH_MS})


def _without_records(topics: Sequence[str]) -> list[bytes]:
    return [
        request("POST", f"/v1/topics/{topic}/records", b'{"records":[]}', {"Content-Type": "application/json"})
        for topic in topics
    ]


def _parts(
    uri: str,
    environment: Mapping[str, str],
    store: str,
    trees: Sequence[tuple[str, Path]],
    whole: Mapping[str, float],
) -> Table:
    """The least of several rounds for each part: it says what the part takes when nothing disturbs it.

    The parts are functions of this tree. A source in which one of them is called otherwise is left out.
    """
    found: dict[str, dict[str, float]] = {name: {} for name, _ in trees}
    for _ in range(PARTS_ROUNDS):
        for name, directory in trees:
            command = [sys.executable, str(THIS / "benchmarks" / "flush_parts.py"), f"{uri}/parts"]
            child = {**os.environ, **environment, "PYTHONPATH": str(directory)}
            said = subprocess.run(command, check=False, env=child, cwd=directory, capture_output=True, timeout=300)
            if said.returncode != 0 and directory == THIS:
                raise RuntimeError(said.stderr.decode())
            for part, cost in json.loads(said.stdout or b"{}").items():
                found[name][part] = min(cost, found[name].get(part, cost))
    columns = [name for name, _ in trees if found[name]]
    table = Table(f"Parts of one small own flush, CPU us, {store}", ["part", *columns])
    for part in found[columns[0]]:
        table.add(part, *(f"{found[name][part]:,.0f}" for name in columns))
    table.add("all else", *(f"{whole[name] - sum(found[name].values()):,.0f}" for name in columns))
    table.add("the flush", *(f"{whole[name]:,.0f}" for name in columns))
    return table
