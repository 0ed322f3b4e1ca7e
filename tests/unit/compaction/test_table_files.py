"""The files of a topic's table at a version are those that a Delta reader finds there, the archive's with the log's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from compaction.policy import Policy
from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.table_files import files_at
from log_format.errors import CorruptData, RequestRefused, UnknownTopic
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import DeleteTopic
from tests.support.maintenance_bench import MaintenanceBench

HOUR = 3_600_000


def fill(bench: MaintenanceBench, first: int, end: int) -> None:
    for number in range(first, end):
        bench.append((0, b"k", b"v%d" % number))
        bench.clock.pass_ms(10)


def archive_some(bench: MaintenanceBench) -> None:
    """Eight archived files and two of the log, and a checkpoint in two parts; two commits behind it."""
    bench.create(1, retention_ms=HOUR, table_retention_ms=-1)
    fill(bench, 0, 8)
    bench.clock.pass_ms(2 * HOUR)
    fill(bench, 8, 10)
    policy = Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**12)
    assert bench.job(policy).run_round(collect=False).failed_topics == 0
    fill(bench, 10, 12)


def found_by_us(bench: MaintenanceBench, version: int) -> dict[str, tuple[int, int]]:
    """Size and records of each file, by its path."""
    found = files_at(bench.store, bench.log.refresh(), version, bench.clock.now_ms())
    rows = [row for adds in found.adds() for row in adds.to_pylist()]
    assert (found.file_count, found.size_bytes) == (len(rows), sum(row["size"] for row in rows))
    assert found.metadata["id"] == bench.log.state.topic_id
    assert found.protocol["minReaderVersion"] == 1
    return {row["path"]: (row["size"], json.loads(row["stats"])["numRecords"]) for row in rows}


def found_by_delta(bench: MaintenanceBench, version: int, directory: Path) -> dict[str, tuple[int, int]]:
    """The same by deltalake, from a copy of the store in a directory."""
    for info in bench.store.list(""):
        path = directory / info.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bench.store.get(info.key))
    actions = DeltaTable(str(directory / "topics/t"), version=version).get_add_actions(flatten=True)
    columns = (actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
    return {path: (size, count) for path, size, count in zip(*columns, strict=True)}


def test_every_version_has_the_files_that_delta_finds(bench: MaintenanceBench, tmp_path: Path) -> None:
    """At the head, at a checkpoint, and before and behind one, with and without an archive."""
    archive_some(bench)
    write_checkpoint(bench.store, "t", bench.log.refresh().version - 1, bench.clock.now_ms())
    head = bench.log.refresh().version
    assert len(found_by_us(bench, head)) == 12
    for version in (0, 3, 9, head - 3, head - 1, head):
        assert found_by_us(bench, version) == found_by_delta(bench, version, tmp_path), version


def test_a_version_that_may_be_deleted_is_refused(bench: MaintenanceBench) -> None:
    """As the future is, an earlier topic of the name, and a topic that does not exist."""
    bench.create(1, deleted_file_retention_ms=0)
    fill(bench, 0, 3)
    bench.commit(DeleteTopic())
    bench.clock.pass_ms(2 * HOUR)
    with pytest.raises(UnknownTopic):
        files_at(bench.store, bench.log.refresh(), 1, bench.clock.now_ms())
    bench.create(1)
    for version, code in ((1, "VERSION_GONE"), (99, "INVALID_REQUEST")):
        with pytest.raises(RequestRefused) as refusal:
            files_at(bench.store, bench.log.refresh(), version, bench.clock.now_ms())
        assert refusal.value.code == code


def test_nothing_is_told_without_the_archived_rows(bench: MaintenanceBench) -> None:
    """Where the archive's part of a checkpoint is gone, its rows come from the commits, or the table is damaged."""
    archive_some(bench)
    version = next(
        version
        for info in bench.store.list(layout.log_prefix("t"))
        if (version := layout.archive_part_version(info.key)) is not None
    )
    bench.store.delete(layout.table_checkpoint_part_key(layout.topic_root("t"), version, 2))
    head = bench.log.refresh()
    assert files_at(bench.store, head, head.version, bench.clock.now_ms()).file_count == 12
    MemoryStore.delete(bench.store, layout.commit_key("t", 0))
    with pytest.raises(CorruptData):
        files_at(bench.store, head, head.version, bench.clock.now_ms())
