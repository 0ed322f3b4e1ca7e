"""The tables beside the topics stay small in the store, too: what left them goes when no reader can want it any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compaction.collection import DeletionReason
from log_format import layout, limits
from log_format.access import changes as access_changes
from log_format.access.row import RoleRow
from log_format.access.state import access_table
from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.delta.table import Table
from log_format.groups import changes as group_changes
from log_format.groups.state import consumer_offsets_table
from log_format.schemas import changes as schema_changes
from log_format.schemas.row import ConfigRow
from log_format.transactions.changes import BeginTransaction, Decide
from log_format.transactions.compaction import Compact
from log_format.transactions.state import transactions_table
from tests.support.faulty_store import FaultyStore
from tests.support.maintenance_bench import MaintenanceBench

ROOT = "system/transactions/"
DAY_MS = limits.DELETED_FILE_RETENTION_MS


def _begin(bench: MaintenanceBench, name: str) -> Decide:
    decision = BeginTransaction(
        transactional_id=name, transaction_id=f"t-{name}", new_producer_id="p", timeout_ms=60_000
    )
    return Decide([decision], bench.new_id)


def _claim(bench: MaintenanceBench, name: str) -> group_changes.Decide:
    return group_changes.Decide([group_changes.ClaimGroup(group=name, coordinator="c")], bench.new_id)


def _role(bench: MaintenanceBench, name: str) -> access_changes.Decide:
    return access_changes.Decide([access_changes.PutRole(row=RoleRow(role=name, members=()))], bench.new_id)


def _config(bench: MaintenanceBench, name: str) -> schema_changes.Decide:
    row = ConfigRow(subject=name, compatibility="NONE")
    return schema_changes.Decide([schema_changes.PutConfig(row=row)], bench.new_id)


CHANGES = {
    ROOT: _begin,
    layout.CONSUMER_OFFSETS_ROOT: _claim,
    layout.ACCESS_ROOT: _role,
    layout.SCHEMAS_ROOT: _config,
}


def _keys(bench: MaintenanceBench, folder: str) -> list[str]:
    return [info.key for info in bench.store.list(f"{ROOT}{folder}")]


def test_what_left_the_table_goes_after_a_day(bench: MaintenanceBench) -> None:
    """Files that compaction replaced and commits that a checkpoint covers are deleted, not before; nothing else is."""
    log = TableLog(bench.store, transactions_table(), bench.clock)
    committer = Committer(log, new_id=bench.new_id, jitter=lambda: 1.0)

    for name in "abc":
        committer.commit(_begin(bench, name))
    bench.clock.pass_ms(DAY_MS)
    assert committer.commit(Compact(bench.new_id, files_min=2)).result == 3
    committer.commit(_begin(bench, "d"))
    write_table_checkpoint(bench.store, ROOT, log.state.version, bench.clock.now_ms())
    bench.clock.pass_ms(DAY_MS - 1)
    bench.job().run_round(collect=True)
    assert (len(_keys(bench, "decisions/")), len(_keys(bench, "compacted/"))) == (4, 1)
    bench.clock.pass_ms(2 + limits.LOG_KEPT_MS_MIN)
    before = TableLog(bench.store, transactions_table(), bench.clock).refresh()
    bench.job().run_round(collect=True)
    assert (len(_keys(bench, "decisions/")), len(_keys(bench, "compacted/"))) == (1, 1)
    assert [key for key in _keys(bench, "_delta_log/") if key.endswith(".json")] == [
        f"{ROOT}_delta_log/{before.version:020d}.json"
    ]
    assert TableLog(bench.store, transactions_table(), bench.clock).refresh() == before


def test_a_file_that_no_commit_names_goes_after_its_grace(bench: MaintenanceBench) -> None:
    """What a gateway left that died between two requests: not while it may be on its way into a commit, and with its reason."""
    log = TableLog(bench.store, transactions_table(), bench.clock)
    committer = Committer(log, new_id=bench.new_id, jitter=lambda: 1.0)
    committer.commit(_begin(bench, "a"))
    orphan = f"{ROOT}decisions/orphan.parquet"
    bench.store.put(orphan, b"from one that died")
    bench.clock.pass_ms(limits.ORPHAN_GRACE_MS)
    bench.job().run_round(collect=True)
    assert len(_keys(bench, "decisions/")) == 2
    version = log.refresh().version
    bench.clock.pass_ms(1)
    bench.job(is_dry_run=True).run_round(collect=True)
    assert (len(_keys(bench, "decisions/")), log.refresh().version) == (2, version)
    bench.job().run_round(collect=True)
    assert orphan not in _keys(bench, "decisions/")
    assert [event["why"] for event in bench.events("delete")] == [DeletionReason.ORPHAN.value]
    assert log.refresh().version == version + 1
    assert set(log.state.transactions) == {"t-a"}


@pytest.mark.parametrize(
    "table", [transactions_table(), consumer_offsets_table(), access_table()], ids=lambda table: table.label
)
def test_a_committer_that_sleeps_through_the_grace_commits_nothing_that_is_gone(
    bench: MaintenanceBench, table: Table[Any]
) -> None:
    """Its file is collected as an orphan, so its version must be taken: it looks again, and brings another file."""
    store = FaultyStore(bench.store)
    log = TableLog(store, table, bench.clock)
    committer = Committer(log, new_id=bench.new_id, jitter=lambda: 1.0)
    change: Callable[[MaintenanceBench, str], Any] = CHANGES[table.root]
    committer.commit(change(bench, "a"))

    def sleeps(real: Callable[[str, bytes], None], key: str, data: bytes) -> None:
        bench.clock.pass_ms(limits.ORPHAN_GRACE_MS + 1)
        bench.job().run_round(collect=True)
        real(key, data)

    store.script["put_if_absent"] = [sleeps]
    committer.commit(change(bench, "b"))
    assert [event["why"] for event in bench.events("delete")] == [DeletionReason.ORPHAN.value]
    state = TableLog(store, table, bench.clock).refresh()
    stored = {info.key.removeprefix(table.root) for info in store.list(table.root)}
    assert len(state.files) == 2
    assert set(state.files) <= stored


def test_what_tried_the_store_goes_after_a_day(bench: MaintenanceBench) -> None:
    """A gateway that died while it looked at the store leaves an object; one that is looking right now keeps its own."""
    bench.store.put(f"{layout.PROBES}left", b"x")
    bench.clock.pass_ms(limits.ORPHAN_GRACE_MS + 1)
    bench.store.put(f"{layout.PROBES}under-way", b"x")
    bench.job().run_round(collect=True)
    assert [info.key for info in bench.store.list(layout.PROBES)] == [f"{layout.PROBES}under-way"]
    assert [event["why"] for event in bench.events("delete")] == [DeletionReason.PROBE.value]


def test_one_damaged_table_holds_up_no_other(bench: MaintenanceBench) -> None:
    """What left the other tables, and what was staged, is deleted all the same; the round says that it failed."""
    Committer(TableLog(bench.store, access_table(), bench.clock), new_id=bench.new_id).commit(_role(bench, "a"))
    bench.store.put(layout.table_commit_key(ROOT, 0), b"no commit")
    orphan = f"{layout.ACCESS_ROOT}rows/orphan.parquet"
    for left in (orphan, f"{layout.PROBES}left"):
        bench.store.put(left, b"x")
    bench.store.put(f"{ROOT}staged/j-1/0-x.arrow", b"x")
    bench.clock.pass_ms(limits.ORPHAN_GRACE_MS + 1)
    totals = bench.job().run_round(collect=True)
    assert totals.failed_topics == 2
    assert {event["key"] for event in bench.events("delete")} == {orphan, f"{layout.PROBES}left"}
