"""A committer that slept for more than a day wakes in the middle of a collection, between its plan and its fence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compaction.job import Job
from compaction.workers import LocalWorkers
from log_format import limits
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.topic.append import Append
from log_format.transactions.changes import BeginTransaction, Decide
from log_format.transactions.state import transactions_table
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.maintenance_bench import SMALL, MaintenanceBench
from tests.support.records import batch_of


def sleeper(bench: MaintenanceBench) -> FaultyStore:
    """A committer's store whose next commit is put while maintenance has planned, and not fenced yet."""

    def sleeps(put: Callable[[str, bytes], None], key: str, data: bytes) -> None:
        bench.clock.pass_ms(limits.ORPHAN_GRACE_MS + 1)

        def wakes(fence: Callable[[str, bytes], None], fence_key: str, fence_data: bytes) -> None:
            put(key, data)
            fence(fence_key, fence_data)

        collecting = FaultyStore(bench.store)
        collecting.script["put_if_absent"] = [wakes]
        job = Job(
            store=collecting,
            workers=LocalWorkers(collecting),
            clock=bench.clock,
            report=bench.report,
            policy=SMALL,
            new_id=bench.new_id,
        )
        assert job.run_round(collect=True).failed_topics == 0

    store = FaultyStore(bench.store)
    store.script["put_if_absent"] = [sleeps]
    return store


def test_a_segment_that_is_committed_behind_the_plan_stays(bench: MaintenanceBench) -> None:
    """What was an orphan when the collector looked is acknowledged before its fence: it is not deleted (G1)."""
    bench.create()
    bench.append((0, b"k", b"before"))
    topic_id = bench.log.state.topic_id or ""
    log = TopicLog(sleeper(bench), "t", bench.clock)
    log.refresh()
    batch = batch_of(topic_id, [b"slept"], timestamps_ms=bench.clock.now_ms())
    (outcome,) = Committer(log, new_id=bench.new_id, jitter=lambda: 1.0).commit(Append([batch], bench.new_id)).result
    assert not isinstance(outcome, Exception)
    assert bench.read() == [(0, b"before"), (1, b"slept")]
    bench.assert_whole()


def test_a_file_that_is_committed_behind_the_plan_stays(bench: MaintenanceBench) -> None:
    """The same of a system table's file."""

    def begin(name: str) -> Decide:
        decision = BeginTransaction(
            transactional_id=name, transaction_id=f"t-{name}", new_producer_id="p", timeout_ms=60_000
        )
        return Decide([decision], bench.new_id)

    table: Any = transactions_table()
    Committer(TableLog(bench.store, table, bench.clock), new_id=bench.new_id).commit(begin("a"))
    log = TableLog(sleeper(bench), table, bench.clock)
    log.refresh()
    Committer(log, new_id=bench.new_id, jitter=lambda: 1.0).commit(begin("b"))
    stored = {info.key.removeprefix(table.root) for info in bench.store.list(table.root)}
    assert set(log.refresh().files) <= stored
    assert len(log.state.files) == 2


class AheadClock(ManualClock):
    """Goes with another clock, days ahead of it."""

    def __init__(self, other: ManualClock) -> None:
        super().__init__()
        self.other = other

    def now_ms(self) -> int:
        return self.other.now_ms() + 3 * limits.ORPHAN_GRACE_MS


def test_what_is_on_its_way_stays_whatever_maintenances_clock_says(bench: MaintenanceBench) -> None:
    """A file is old enough when it is so for the store: of a topic, of a system table, and a delayed record's object."""
    bench.create()
    bench.append((0, b"k", b"v"))
    table: Any = transactions_table()
    decision = BeginTransaction(transactional_id="a", transaction_id="t-a", new_producer_id="p", timeout_ms=60_000)
    log = TableLog(bench.store, table, bench.clock)
    Committer(log, new_id=bench.new_id).commit(Decide([decision], bench.new_id))
    for key in ("topics/t/segments/x.parquet", f"{table.root}decisions/x.parquet", "topics/t/scheduled/gone/objects/x"):
        bench.store.put(key, b"x")
    wrong = Job(
        store=bench.store,
        workers=LocalWorkers(bench.store),
        clock=AheadClock(bench.clock),
        report=bench.report,
        policy=SMALL,
        new_id=bench.new_id,
    )
    assert wrong.run_round(collect=True).failed_topics == 0
    assert len(left(bench)) == 3
    bench.clock.pass_ms(limits.ORPHAN_GRACE_MS + 1)
    assert bench.job().run_round(collect=True).failed_topics == 0
    assert left(bench) == []


def left(bench: MaintenanceBench) -> list[str]:
    return [info.key for info in bench.store.list("") if info.key.endswith(("/x", "/x.parquet"))]
