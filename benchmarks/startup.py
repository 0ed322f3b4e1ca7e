"""Start-up and first read by the number of commits in a topic's log; memory under load."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bodies import arrow_requests, json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call, gateway
from benchmarks.produce import make_topic
from benchmarks.report import Table
from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig

COMMITS = (10, 1_000, 5_000)


def _new_id() -> str:
    return str(uuid.uuid4())


def _fill(store: Any, name: str, commits: int) -> None:
    clock = SystemClock()
    log = TopicLog(store, name, clock)
    committer = Committer(log, new_id=_new_id)
    topic_id = _new_id()
    committer.commit(CreateTopic(name=name, partition_count=8, config=TopicConfig.parse({}), topic_id=topic_id))
    columns = {"timestamp": [0] * 8, "key": [b"k"] * 8, "value": [b"v" * 100] * 8, "headers": [None] * 8}
    records = pa.table({field.name: pa.array(columns[field.name], field.type) for field in BATCH_SCHEMA})
    written = None
    for _ in range(commits):
        batch = Batch(topic_id=topic_id, records=records, partitions=np.arange(8, dtype=np.int32), record_bytes_max=101)
        state = committer.commit(Append([batch], _new_id)).state
        if checkpoint.is_due(state.version, written, state.manifest.segment_count()):
            checkpoint.write_checkpoint(store, name, state.version, clock.now_ms())
            written = state.version


def startup(store: str) -> Iterator[Table]:
    """A new gateway, and its first description of a topic, by the number of commits."""
    table = Table(
        "Start-up against commits in the log, directory store",
        ["commits", "start to ready, s", "first look at the topic, ms", "floor: a topic with one commit, ms"],
    )
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


def _look_ms(server: Server, topic: str) -> float:
    started = time.perf_counter()
    call(server.port, "GET", f"/v1/topics/{topic}")
    return (time.perf_counter() - started) * 1000


def memory(gateway_server: Server, seconds: float) -> Iterator[Table]:
    """Largest resident size under large and small requests over 64 connections."""
    table = Table(
        "Memory of the gateway under load, default settings", ["load", "largest resident size, MiB", "floor: idle, MiB"]
    )
    idle = gateway_server.rss_peak_bytes() / 2**20
    make_topic(gateway_server.port)
    for name, requests in (
        ("JSON x 1,000, 100 B, 64 connections", json_requests(1000, 100)),
        ("Arrow x 10,000, 1 KiB, 64 connections", arrow_requests(10_000, 1024)),
    ):
        run_load(gateway_server.port, requests, connections=64, seconds=seconds)
        table.add(name, f"{gateway_server.rss_peak_bytes() / 2**20:.0f}", f"{idle:.0f}")
    yield table
