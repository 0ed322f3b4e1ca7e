"""How many bytes a query for one value reads of a topic's archive: in the order of offsets, laid out by ``table.cluster.by``, and
beside Delta's own Z-order of a plain copy of the same rows.

A row has a customer, as key and as ``data.customer``, of whom there are 100 rows anywhere in the topic. The query wants all
columns of one customer's rows, once by the typed column and once by the key. Bytes are those that the reader's process has read
from files (``rchar`` of ``/proc/<pid>/io``) when it ran the query for the second time: what it keeps of the first is not counted.

Segments of more than half a file are not merged without ``table.cluster.by``: large ``--flush-rows`` save that work.

``python -m benchmarks cluster [--rows N] [--flush-rows N] [--file-mebibytes N] [--without-copy] [--without-spark] [--json]``
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness.processes import ROOT
from benchmarks.harness.report import Table, printed
from benchmarks.harness.stores import directory
from benchmarks.harness.topic import WrittenTopic, new_id
from compaction.job import Job
from compaction.report import LogReporter
from compaction.workers import LocalWorkers
from log_format.clock import SystemClock
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import AlterTopic, DeleteRecords
from log_format.topic.config import Subjects

ROWS: Final = 10_000_000
ROWS_PER_CUSTOMER: Final = 100
FLUSH_ROWS: Final = 200_000
PARTITIONS: Final = 4
TOPIC: Final = "orders"
SUBJECT: Final = "orders-value"
READERS: Final = ("duckdb", "deltalake", "pyarrow", "spark")
QUERIES: Final = {"column": "data.customer = …", "key": "key = …"}


def main(arguments: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"of the archive (default {ROWS:,})")
    parser.add_argument("--file-mebibytes", type=int, default=256, help="table.file.bytes (default 256)")
    parser.add_argument("--flush-rows", type=int, default=FLUSH_ROWS, help=f"of a segment (default {FLUSH_ROWS:,})")
    parser.add_argument("--without-copy", action="store_true", help="no Z-order of a copy by Delta")
    parser.add_argument("--without-spark", action="store_true", help="neither Spark's reads nor Delta's Z-order")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    with printed(as_json=given.json):
        size = _Size(given.rows, given.flush_rows, given.file_mebibytes << 20)
        readers = READERS[:-1] if given.without_spark else READERS
        tables = list(_measure(size, readers, has_copy=not (given.without_copy or given.without_spark)))
    if given.json:
        print(json.dumps([table.as_json() for table in tables]))
    return 0


class _Size(NamedTuple):
    """Rows of the archive and of a segment, and ``table.file.bytes``."""

    rows: int
    flush_rows: int
    file_bytes: int

    @property
    def customer(self) -> str:
        """The customer that queries ask for."""
        return f"customer-{self.rows // ROWS_PER_CUSTOMER // 3:08d}"


def _measure(size: _Size, readers: tuple[str, ...], *, has_copy: bool) -> Iterator[Table]:
    rows = size.rows
    work = Table(f"Laying out {rows:,} rows", ["", "seconds", "CPU seconds", "files", "MiB"])
    found: dict[str, dict[str, dict[str, int]]] = {}
    with directory() as store:
        path = f"{store}/topics/{TOPIC}"
        topic = _timed(work, "writing segments", path, lambda: _fill(store, size))
        _timed(work, "maintenance without table.cluster.by", path, lambda: _maintain(store))
        found["offsets"] = _read(readers, path, size.customer)
        if has_copy:
            found |= _copies(work, readers, store, size)
        topic.alter(AlterTopic(partition_count=None, config={"table.cluster.by": "data.customer"}))
        _timed(work, "maintenance with table.cluster.by", path, lambda: _maintain(store))
        found["laid out"] = _read(readers, path, size.customer)
    yield work
    names = ["offsets", "laid out", *(["plain copy", "Z-order"] if has_copy else [])]
    table = Table(
        f"KiB that a query for one of {rows // ROWS_PER_CUSTOMER:,} customers reads of {rows:,} rows",
        ["reader", "query", *names, "laid out / offsets", *(["Z-order / plain copy"] if has_copy else [])],
    )
    for reader in readers:
        for query, text in QUERIES.items():
            counts = {name: found[name][reader][query] for name in names}
            shares = [("laid out", "offsets"), ("Z-order", "plain copy")][: 2 if has_copy else 1]
            ratios = [f"{100 * counts[one] / counts[other]:.2f} %" for one, other in shares]
            table.add(reader, text, *(f"{count / 1024:,.0f}" for count in counts.values()), *ratios)
    yield table


def _copies(work: Table, readers: tuple[str, ...], store: str, size: _Size) -> dict[str, dict[str, dict[str, int]]]:
    """Let Spark make a plain copy of the rows, and order it in files of the same size; return what reads both."""
    path, copy = f"{store}/topics/{TOPIC}", f"{store}/copy"
    _timed(work, "Spark's plain copy", copy, lambda: _child("copy", path, copy))
    plain = _read(readers, copy, size.customer)
    _timed(work, "OPTIMIZE … ZORDER BY (data.customer)", copy, lambda: _child("zorder", copy, str(size.file_bytes)))
    ordered = _read(readers, copy, size.customer)
    shutil.rmtree(copy.removeprefix("file://"))
    return {"plain copy": plain, "Z-order": ordered}


def _timed(work: Table, what: str, path: str, act: Any) -> Any:
    started, started_cpu = time.perf_counter(), _cpu_seconds()
    result = act()
    took_s, cpu_s = time.perf_counter() - started, _cpu_seconds() - started_cpu
    found = json.loads(_child("files", path))
    work.add(what, f"{took_s:.0f}", f"{cpu_s:.0f}", f"{found['count']:,}", f"{found['bytes'] / 2**20:,.0f}")
    return result


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _read(readers: tuple[str, ...], path: str, customer: str) -> dict[str, dict[str, int]]:
    return {reader: json.loads(_child("read", reader, path, customer)) for reader in readers}


def _child(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.maintenance.point_queries", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    return done.stdout.splitlines()[-1] if done.stdout else ""


def _maintain(store: str) -> None:
    opened = open_store(store, fsync=False)
    job = Job(
        store=opened,
        workers=LocalWorkers(opened),
        clock=SystemClock(),
        report=LogReporter(),
        new_id=new_id,
    )
    while job.run_round(collect=True).rewrites:
        pass


def _fill(store: str, size: _Size) -> WrittenTopic:
    """Write a topic whose log start is behind all rows but the last flush."""
    config = {
        "retention.ms": -1,
        "table.retention.ms": -1,
        "table.file.bytes": size.file_bytes,
        "value.schema": SUBJECT,
        "deleted.file.retention.ms": 0,
        "commit.mode": "own",
    }
    topic = WrittenTopic(open_store(store, fsync=False), TOPIC, partitions=PARTITIONS, config=config)
    random = np.random.default_rng(1)
    customers = random.permutation(np.repeat(np.arange(size.rows // ROWS_PER_CUSTOMER), ROWS_PER_CUSTOMER))
    for first in range(0, size.rows, size.flush_rows):
        _append(topic, customers[first : first + size.flush_rows], first, random)
    ends = {partition: int(end) for partition, end in enumerate(topic.log.refresh().next_offsets)}
    _append(topic, np.arange(PARTITIONS), size.rows, random)
    topic.alter(DeleteRecords(before=ends))
    return topic


def _append(topic: WrittenTopic, customers: Any, first: int, random: np.random.Generator) -> None:
    """Write one segment."""
    starts = range(0, len(customers), FLUSH_ROWS)
    batches = [_batch(topic, customers[at : at + FLUSH_ROWS], first + at, random) for at in starts]
    topic.alter(Append(batches, new_id))


def _batch(topic: WrittenTopic, customers: Any, first: int, random: np.random.Generator) -> Batch:
    count = len(customers)
    names = pc.binary_join_element_wise("customer-", pc.utf8_lpad(pa.array(customers).cast(pa.string()), 8, "0"), "")
    amounts = random.integers(0, 100_000, count) / 100
    notes = pa.array(np.frombuffer(random.bytes(20 * count).hex().encode(), "S40")).cast(pa.string())
    documents = pc.binary_join_element_wise(
        '{"customer":"', names, '","amount":', pa.array(amounts).cast(pa.string()), ',"note":"', notes, '"}', ""
    )
    data = pa.StructArray.from_arrays([names, pa.array(amounts), notes], names=["customer", "amount", "note"])
    columns = [
        pa.array((1_700_000_000_000 + np.arange(first, first + count)) * 1000).cast(
            BATCH_SCHEMA.field("timestamp").type
        ),
        names.cast(pa.binary()),
        documents.cast(pa.binary()),
        pa.nulls(count, BATCH_SCHEMA.field("headers").type),
    ]
    return Batch(
        topic_id=topic.log.state.existing_id,
        records=pa.table(columns, schema=BATCH_SCHEMA),
        partitions=(np.arange(count) % PARTITIONS).astype(np.int32),
        record_bytes_max=200,
        typed=pa.table({"data": data, "data_error": pa.nulls(count, pa.string())}),
        subjects=Subjects(SUBJECT, ""),
    )
