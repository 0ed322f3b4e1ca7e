"""Start-up and first read by the number of commits in a topic's log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.options import Options
from benchmarks.harness.processes import Server, call, gateway
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.harness.topic import PARTITIONS, WrittenTopic, records_of
from log_format.checkpoints import checkpoint
from log_format.stores import open_store

COMMITS = (10, 1_000, 5_000)


def measure(_options: Options) -> Iterator[Table]:
    """Yield one table: a new gateway, and its first description of a topic, by the number of commits."""
    table = Table(
        "Start-up against commits in the log, directory store",
        ["commits", "start to ready, s", "first look at the topic, ms", "floor: a topic with one commit, ms"],
    )
    with directory() as store:
        raw = open_store(store, fsync=False)
        _fill(raw, "floor", 0)
        for commits in COMMITS:
            _fill(raw, f"commits-{commits}", commits)
            started = time.perf_counter()
            with gateway(store) as server:
                ready = time.perf_counter() - started
                floor_ms = _look_ms(server, "floor")
                table.add(commits, f"{ready:.2f}", f"{_look_ms(server, f'commits-{commits}'):.1f}", f"{floor_ms:.1f}")
    yield table


def _fill(store: Any, name: str, commits: int) -> None:
    """Write a topic, with checkpoints as a gateway writes them."""
    topic = WrittenTopic(store, name)
    records = records_of([b"v" * 100] * PARTITIONS, [b"k"] * PARTITIONS)
    written = None
    for _ in range(commits):
        state = topic.append(records, np.arange(PARTITIONS, dtype=np.int32), 101)
        if checkpoint.is_checkpoint_due(state.version, written, state.manifest.segment_count()):
            checkpoint.write_checkpoint(store, name, state.version, time.time_ns() // 1_000_000)
            written = state.version


def _look_ms(server: Server, topic: str) -> float:
    started = time.perf_counter()
    call(server.port, "GET", f"/v1/topics/{topic}")
    return (time.perf_counter() - started) * 1000
