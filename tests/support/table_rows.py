"""The rows of a topic's table as readers of Delta see them, those of the archive with those of the log."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import read_archive, scan_file
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.store import ObjectStore
from log_format.topic.live_segments import live_segments

Row = tuple[int, int, bytes | None, bytes | None]
"""Partition, offset, key, value."""


def rows_by_log(store: ObjectStore, topic: str, clock: Clock) -> list[Row]:
    """Every row of every file that the reconciled log names, in the order of the files' times."""
    version = TopicLog(store, topic, clock).refresh().version
    table = checkpoint.reconcile_log(store, topic, version, clock.now_ms())
    assert table is not None
    archive = read_archive(store, topic, version, clock.now_ms(), lambda pieces: pa.concat_tables([table, *pieces]))
    assert archive is not None
    rows: list[Row] = []
    for live in live_segments(archive):
        for part in scan_file(store, topic, live):
            columns = (part.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
            rows += zip(*columns, strict=True)
    return rows


def rows_by_delta(store: ObjectStore, topic: str, directory: Path) -> list[tuple[int, int, bytes | None]]:
    """Partition, offset and value of every row by deltalake, in their order, from a copy of the store in a directory."""
    for info in store.list(""):
        path = directory / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.get(info.key))
    table = DeltaTable(str(directory / "topics" / topic)).to_pyarrow_table()
    return sorted(zip(*(table.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True))
