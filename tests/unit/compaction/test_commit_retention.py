"""``commit.retention.ms``: every version of that time is readable by a Delta reader, whatever the counts say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import deltalake

from compaction.policy import Policy
from log_format.checkpoints import checkpoint
from tests.support.maintenance_bench import MaintenanceBench

MINUTE = 60_000
HOUR = 60 * MINUTE
STEP = 20 * MINUTE
PROMISED = 3 * HOUR


def stored_in(bench: MaintenanceBench, directory: Path) -> str:
    """Write the bench's topic into a directory. Returns where it is."""
    for key in bench.stored(""):
        (directory / key).parent.mkdir(parents=True, exist_ok=True)
        (directory / key).write_bytes(bench.store.get(key))
    return str(directory / "topics/t")


def readable(table: str, versions: Iterable[int]) -> dict[int, int]:
    """Return those of the versions that deltalake reads, and how many records each has."""
    found = {}
    for version in versions:
        try:
            found[version] = deltalake.DeltaTable(table, version=version).to_pyarrow_table(columns=["offset"]).num_rows
        except (deltalake.exceptions.DeltaError, FileNotFoundError, OSError):
            continue
    return found


def test_versions_of_the_promised_time_are_readable(tmp_path: Path) -> None:
    """With both counts at 0 an hour would stay: a topic that promises three keeps commits, checkpoints and files for three, in
    every round; and no more than about that."""
    bench = MaintenanceBench()
    bench.create(commit_retention_ms=PROMISED, commit_retention_count=0, deleted_file_retention_count=0, flush_ms=1)
    job = bench.job(Policy(flushed_min=2, fan_in=2))
    committed_at_ms = {0: bench.clock.now_ms()}
    records = {0: 0}
    for step in range(18):
        for _ in range(3):
            bench.append((0, b"k", b"v"))
            version = bench.log.state.version
            committed_at_ms[version], records[version] = bench.clock.now_ms(), bench.log.state.high_watermark(0)
            bench.clock.pass_ms(STEP // 3)
        job.run_round(collect=False)
        checkpoint.write_checkpoint(bench.store, "t", bench.log.refresh().version, bench.clock.now_ms())
        job.run_round(collect=True)
        if step < 12 or step % 3:
            continue
        promised = [at for at, ms in committed_at_ms.items() if ms >= bench.clock.now_ms() - PROMISED]
        older = [at for at, ms in committed_at_ms.items() if ms < bench.clock.now_ms() - PROMISED - 2 * STEP]
        assert older
        found = readable(stored_in(bench, tmp_path / str(step)), [*older[-3:], *promised])
        assert {at: found.get(at) for at in promised} == {at: records[at] for at in promised}
        assert not set(older) & set(found), "bounded"
    bench.assert_whole()
