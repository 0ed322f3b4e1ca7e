"""The tables beside the topics stay small in the store, too: what left them goes when no reader can want it any more."""

from __future__ import annotations

from typing import Any

from log_format import limits
from log_format.checkpoint import write_table_checkpoint
from log_format.committer import Committer
from log_format.table_log import TableLog
from log_format.transaction_changes import Begin, Decide
from log_format.transaction_compaction import Compact
from log_format.transactions_state import transactions_table

ROOT = "system/transactions/"
DAY_MS = limits.DELETED_FILE_RETENTION_MS


def _keys(bench: Any, folder: str) -> list[str]:
    return [info.key for info in bench.store.list(f"{ROOT}{folder}")]


def test_what_left_the_table_goes_after_a_day(bench: Any) -> None:
    """Files that compaction replaced and commits that a checkpoint covers are deleted, not before; nothing else ever is."""
    log = TableLog(bench.store, transactions_table(), bench.clock)
    committer = Committer(log, new_id=bench.new_id, jitter=lambda: 1.0)

    def begin(name: str) -> None:
        decision = Begin(transactional_id=name, transaction_id=f"t-{name}", new_producer_id="p", timeout_ms=60_000)
        committer.commit(Decide([decision], bench.new_id))

    for name in "abc":
        begin(name)
    bench.store.put(f"{ROOT}decisions/orphan.parquet", b"from one that died")
    bench.clock.ms += DAY_MS
    assert committer.commit(Compact(bench.new_id, files_min=2)).result == 3
    begin("d")
    write_table_checkpoint(bench.store, ROOT, log.state.version, bench.clock.now_ms())
    bench.clock.ms += DAY_MS - 1
    bench.job().run_round(collect=True)
    assert (len(_keys(bench, "decisions/")), len(_keys(bench, "compacted/"))) == (5, 1)
    bench.clock.ms += 2 + limits.LOG_KEPT_MS_MIN
    before = TableLog(bench.store, transactions_table(), bench.clock).refresh()
    bench.job().run_round(collect=True)
    assert (len(_keys(bench, "decisions/")), len(_keys(bench, "compacted/"))) == (2, 1)
    assert [key for key in _keys(bench, "_delta_log/") if key.endswith(".json")] == [
        f"{ROOT}_delta_log/{before.version:020d}.json"
    ]
    assert TableLog(bench.store, transactions_table(), bench.clock).refresh() == before
