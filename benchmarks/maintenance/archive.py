"""What archived segments (``--archived``) cost a gateway: start, first look, produce, takeover, memory and checkpoints, beside a
topic with the same log and without an archive, in turns in one run.

The archive's rows are made up: they are in the checkpoint's second part, as maintenance would write it. Their segments are not in
the store, since no gateway reads them. One segment is really archived, so that everything else is as a topic has it.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness.options import Options
from benchmarks.harness.processes import Server, call, gateway
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.harness.topic import WrittenTopic, records_of
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.advanced_checkpoint import ARCHIVE_KEY
from log_format.checkpoints.archive_rows import named_adds
from log_format.checkpoints.checkpoint import open_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.actions import Add
from log_format.delta.checkpoint_file import encode_checkpoint_pieces
from log_format.delta.checkpoint_schema import ADD, SCHEMA, conforming
from log_format.segments.run import Run, SegmentRef
from log_format.stores import open_store
from log_format.topic.archive import archived
from log_format.topic.archiving import ArchiveExpired
from log_format.topic.changes import DeleteRecords
from log_format.topic.segment_tags import add_segment
from log_format.topic.state import TopicState

LIVE: Final = 1_000
CHECKPOINTS: Final = 5
PRODUCED: Final = 20
"""Requests of which the median counts in each turn."""
LOADS: Final = 50
_PIECE: Final = 10_000


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: medians of all turns by topic, and their ratios."""
    table = Table(
        f"A gateway at a topic with {LIVE:,} segments in its log, with {options.archived:,} archived ones and without, directory",
        ["", "with the archive", "without", "ratio"],
    )
    with directory() as store:
        raw = open_store(store, fsync=False)
        topics = {"with": _fill(raw, "with", options.archived), "without": _fill(raw, "without", 0)}
        found: dict[str, dict[str, list[float]]] = {}
        for turn in range(options.rounds):
            for topic in ("with", "without") if turn % 2 else ("without", "with"):
                for name, value in _turn(store, topic).items():
                    found.setdefault(name, {}).setdefault(topic, []).append(value)
        for name, by_topic in found.items():
            one, other = (statistics.median(by_topic[topic]) for topic in ("with", "without"))
            table.add(name, f"{one:.2f}", f"{other:.2f}", f"{one / other:.2f}")
        loads: dict[str, list[float]] = {"with": [], "without": []}
        for turn in range(LOADS):
            for name in ("with", "without") if turn % 2 else ("without", "with"):
                loads[name].append(_load_cpu_ms(raw, name))
        one, other = (statistics.median(loads[name]) for name in ("with", "without"))
        table.add(
            "loading the topic's state in a process, ms of CPU", f"{one:.2f}", f"{other:.2f}", f"{one / other:.2f}"
        )
        times = {name: _checkpoint_ms(raw, topic) for name, topic in topics.items()}
        ratio = f"{times['with'] / times['without']:.2f}"
        table.add("checkpoint of an unchanged archive, ms", f"{times['with']:.2f}", f"{times['without']:.2f}", ratio)
    yield table


def _turn(store: str, topic: str) -> dict[str, float]:
    """Return the figures of two new gateways at one topic."""
    started = time.perf_counter()
    with gateway(store) as server:
        ready_s = time.perf_counter() - started
        look_ms = _timed_ms(server, "GET", f"/v1/topics/{topic}")
        produced = [_produce_ms(server, topic) for _ in range(PRODUCED)]
        rss = server.rss_peak_bytes() / 2**20
    with gateway(store) as server:
        takeover_ms = _produce_ms(server, topic)
    return {
        "start to ready, s": ready_s,
        "first look, ms": look_ms,
        "produce, median ms": statistics.median(produced),
        "takeover: first produce of a new gateway, ms": takeover_ms,
        "largest resident size, MiB": rss,
    }


def _produce_ms(server: Server, topic: str) -> float:
    return _timed_ms(server, "POST", f"/v1/topics/{topic}/records", {"records": [{"key": "k", "value": "v"}]})


def _timed_ms(server: Server, method: str, path: str, body: Any = None) -> float:
    started = time.perf_counter()
    call(server.port, method, path, body)
    return (time.perf_counter() - started) * 1000


def _load_cpu_ms(store: Any, topic: str) -> float:
    """Return the CPU time in which a new log knows the topic's state: other work on the machine hardly changes it."""
    started = time.process_time()
    state = TopicLog(store, topic, SystemClock()).refresh()
    took_ms = (time.process_time() - started) * 1000
    assert state.manifest.segment_count() >= LIVE
    return took_ms


def _checkpoint_ms(store: Any, topic: WrittenTopic) -> float:
    """Return the median time of writing the next checkpoint after one commit."""
    times = []
    for _ in range(CHECKPOINTS):
        topic.log.refresh()
        state = _append(topic)
        started = time.perf_counter()
        checkpoint.write_checkpoint(store, topic.log.topic, state.version, time.time_ns() // 1_000_000)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def _append(topic: WrittenTopic) -> TopicState:
    return topic.append(records_of([b"v" * 100], [b"k"]), np.zeros(1, np.int32), 101)


def _fill(store: Any, name: str, archived_count: int) -> WrittenTopic:
    """Write a topic whose log has ``LIVE`` segments, under a checkpoint."""
    config = {"retention.ms": -1, **({"table.retention.ms": -1} if archived_count else {})}
    topic = WrittenTopic(store, name, partitions=1, config=config)
    for _ in range(LIVE + 1):
        state = _append(topic)
    first = state.manifest.segments()[0].path
    topic.alter(DeleteRecords(before={0: 1}))
    now_ms = time.time_ns() // 1_000_000
    if archived_count:
        table = checkpoint.reconcile_log(store, name, topic.log.state.version, now_ms)
        assert table is not None
        topic.alter(ArchiveExpired(topic_id=topic.log.state.existing_id, adds=named_adds([table], [first])))
    version = topic.log.state.version
    checkpoint.write_checkpoint(store, name, version, now_ms)
    if archived_count:
        enlarge(store, layout.topic_root(name), version, _made_up(archived_count))
    return topic


def enlarge(store: Any, root: str, version: int, adds: Iterable[Add]) -> None:
    """Replace the archive of one segment in the checkpoint of ``version`` by one that ``adds`` name."""
    opened = open_checkpoint(store, root, version)
    assert opened is not None
    assert opened.archive.segment_count == 1
    size_bytes = 0

    def pieces() -> Iterator[pa.Table]:
        nonlocal size_bytes
        left = iter(adds)
        while some := list(islice(left, _PIECE)):
            size_bytes += sum(add.size for add in some)
            yield _rows(some)

    data, row_count = encode_checkpoint_pieces(pieces(), {})
    store.put(layout.table_checkpoint_part_key(root, version, 2), data)
    whole = opened.file.read(None, with_tombstones=True)
    metadata = {**whole.schema.metadata, ARCHIVE_KEY: msgspec.json.encode([row_count, size_bytes])}
    is_removed = whole.column("remove").is_valid()
    parts = [whole.filter(pc.invert(is_removed)), whole.filter(is_removed)]
    data, _ = encode_checkpoint_pieces(map(conforming, parts), metadata)
    store.put(layout.table_checkpoint_part_key(root, version, 1), data)


def _made_up(count: int) -> Iterator[Add]:
    """Yield the ``add`` of archived segments that are not in the store."""
    for number in range(count):
        segment = SegmentRef(layout.compacted_path(uuid.uuid4().hex), 1_000, 500, number)
        run = Run(0, number, number + 1, 1, 400, number, number)
        yield archived(add_segment(segment, [run], modification_time_ms=number, data_change=False))


def _rows(some: Iterable[Add]) -> pa.Table:
    rows = []
    for add in some:
        row = {"path": add.path, "partitionValues": [], "size": add.size, "modificationTime": add.modification_time}
        rows.append({**row, "dataChange": False, "stats": add.stats, "tags": list((add.tags or {}).items())})
    adds = pa.array(rows, ADD)
    columns = [adds if field.name == "add" else pa.nulls(len(adds), field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)
