"""``data.backfill``: what a topic had before it got its schema gets columns by maintenance, and nothing else of it changes."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest

from compaction.policy import Policy
from log_format.records.typed_columns import NOT_JUDGED
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.changes import AlterTopic
from log_format.topic.config import Subjects
from tests.support.backfill_bench import VALUE, BackfillBench
from tests.support.interfering_workers import InterferingWorkers
from tests.support.killed_store import Broken, KilledStore
from tests.support.records import batch_of
from tests.support.registry import record

ORDER = record("Order", id="long")
LATER = record("Order", id="long", note=(["null", "string"], None))
QUIET = Policy(flushed_min=2_000, flushed_bytes_min=1 << 40, fan_in=10_000, quiet_fan_in=10_000)
"""Merges nothing by itself."""
ONE_BY_ONE = replace(QUIET, target_bytes=2_000)
"""Rewrites each segment alone."""


@pytest.fixture
def bench() -> BackfillBench:
    """A topic of two partitions that has no schema yet, whose subject has one version."""
    made = BackfillBench(make_store=KilledStore)
    made.register(ORDER)
    made.create(2)
    return made


def test_what_was_there_gets_the_columns_of_records_produced_typed(bench: BackfillBench) -> None:
    """Values, keys and times stay; a record that is not of the schema is marked; statistics are written; no second rewrite."""
    framed = b"\0" + (1).to_bytes(4, "big") + b"\x0e"
    values = [{"id": 1}, None, framed, b"no JSON", {"id": "x"}, b"\0\0\0\0\x09\x02"]
    bench.produce(*values)
    bench.produce({"id": 8}, partition=1)
    bench.alter()
    bench.produce({"id": 9})
    before = bench.records()
    bench.job(QUIET).run_round(collect=False)
    assert bench.records().equals(before)
    rows = bench.columns()
    assert [row["data"] and row["data"]["id"] for row in rows] == [1, None, 7, None, None, None, 9, 8]
    assert [row["data_error"] is not None for row in rows] == [False] * 3 + [True] * 3 + [False] * 2
    twin = BackfillBench()
    twin.register(ORDER)
    twin.create(2)
    twin.alter()
    twin.produce(*values, {"id": 9})
    twin.produce({"id": 8}, partition=1)
    assert rows == twin.columns()
    stats = [json.loads(one["stats"]) for one in bench.adds()]
    assert sorted(one["maxValues"]["data"]["id"] for one in stats) == [7, 8, 9]
    version = bench.log.refresh().version
    bench.job(QUIET).run_round(collect=False)
    assert (bench.log.refresh().version, bench.left()) == (version, 0)
    bench.assert_whole()


def test_nothing_is_rewritten_unless_it_is_asked_for(bench: BackfillBench) -> None:
    """Without the setting old segments stay as they are; merged ones keep null columns."""
    bench.produce({"id": 1})
    bench.alter(backfill=False)
    bench.produce({"id": 2})
    bench.job(QUIET).run_round(collect=False)
    assert bench.left() == 1
    bench.job().run_round(collect=False)
    assert [row["data"] for row in bench.columns()] == [None, {"id": 2}]
    assert bench.left() == 1, "a merge of both kinds is not typed"
    bench.alter()
    bench.job(QUIET).run_round(collect=False)
    assert [row["data"] for row in bench.columns()] == [{"id": 1}, {"id": 2}]


def test_merges_do_it_on_their_way(bench: BackfillBench) -> None:
    """A segment that is merged anyway is read and written once."""
    for number in range(6):
        bench.produce({"id": number})
    bench.alter()
    bench.job(Policy(flushed_min=2)).run_round(collect=False)
    assert [event["reason"] for event in bench.events("rewrite")] == ["merge"]
    assert ([row["data"]["id"] for row in bench.columns()], bench.left()) == ([*range(6)], 0)


def test_a_newer_version_widens_the_table(bench: BackfillBench) -> None:
    """Documents are judged by the newest version, although no record has brought its columns to the table yet."""
    bench.produce({"id": 1, "note": "n"}, {"id": 2})
    bench.alter()
    bench.register(LATER)
    bench.job(QUIET).run_round(collect=False)
    assert [row["data"] for row in bench.columns()] == [{"id": 1, "note": "n"}, {"id": 2, "note": None}]
    assert [one.name for one in bench.log.refresh().columns.data or ()] == ["id", "note"]
    bench.assert_whole()


def test_a_second_schema_judges_only_what_it_is_for(bench: BackfillBench) -> None:
    """Keys get theirs later: columns of values stay as an older version judged them, and a wrong key marks its record."""
    bench.register(record("Order", id="long", more=("long", 0)))
    bench.register('"string"', "orders-key")
    bench.alter(backfill=False)
    bench.produce({"id": 1, "more": 2}, {"id": 2}, keys=[b'"a"', b"7"])
    bench.register(record("Order", id="long", other=("long", 0)))
    bench.alter(Subjects(VALUE, "orders-key"))
    bench.job(QUIET).run_round(collect=False)
    first, second = bench.columns()
    assert first == {"data": {"id": 1, "more": 2, "other": None}, "key_data": "a", "data_error": None}
    assert (second["data"], second["key_data"]) == (None, None)
    assert second["data_error"].startswith("key: ")


def test_a_value_whose_column_is_null_is_judged_once(bench: BackfillBench) -> None:
    """One that is null by its schema has no column, and is not looked at for ever."""
    number = bench.register('["null", "string"]', "orders-key")
    bench.produce({"id": 1}, keys=[b"\0" + number.to_bytes(4, "big") + b"\0"])
    bench.alter(Subjects(VALUE, "orders-key"))
    bench.job(QUIET).run_round(collect=False)
    assert bench.columns() == [{"data": {"id": 1}, "key_data": None, "data_error": None}]
    assert bench.job(QUIET).run_round(collect=False).rewrites == 0


def test_what_nobody_could_judge_is_judged_later(bench: BackfillBench) -> None:
    """A decided transaction's record says that it was not judged, and gets its columns once the schemas are known."""
    bench.alter(backfill=False)
    batch = batch_of(
        bench.log.refresh().topic_id,
        [b'{"id":2}'],
        timestamps_ms=bench.clock.now_ms(),
        transaction=TransactionStamp("t-1", 1, 0),
    )
    bench.commit(Append([batch], bench.new_id))
    assert bench.columns() == [{"data": None, "key_data": None, "data_error": NOT_JUDGED}]
    bench.alter()
    bench.job(QUIET).run_round(collect=False)
    assert bench.columns() == [{"data": {"id": 2}, "key_data": None, "data_error": None}]


def test_producers_and_other_maintenance_go_on_beside_it(bench: BackfillBench) -> None:
    """Appends between a rewrite and its commit stay; sources that another maintainer has merged are looked for anew."""
    for number in range(4):
        bench.produce({"id": number})
    bench.alter()
    job = bench.job(ONE_BY_ONE)
    job.workers = InterferingWorkers(
        bench.store,
        lambda: bench.produce({"id": 4}),
        lambda: bench.job(Policy(flushed_min=2)).run_round(collect=False),
        lambda: bench.produce({"id": 5}),
    )
    job.run_round(collect=False)
    job.run_round(collect=False)
    assert "overtaken" in {event["outcome"] for event in bench.events("rewrite")}
    assert ([row["data"]["id"] for row in bench.columns()], bench.left()) == ([*range(6)], 0)
    assert [value for _, value in bench.read()] == [json.dumps({"id": number}).encode() for number in range(6)]
    bench.assert_whole()


def test_turned_off_it_stops_where_it_is(bench: BackfillBench) -> None:
    """What is done stays done; the tasks of the next wave are not begun."""
    for number in range(8):
        bench.produce({"id": number})
    bench.alter()
    job = bench.job(ONE_BY_ONE)
    job.workers = InterferingWorkers(
        bench.store, lambda: bench.commit(AlterTopic(partition_count=None, config={"data.backfill": "off"}))
    )
    totals = job.run_round(collect=False)
    assert (totals.rewrites, bench.left()) == (4, 4)
    assert [event["segments_left"] for event in bench.events("backfill")] == [8, 4, 0]
    bench.alter()
    totals = bench.job(ONE_BY_ONE).run_round(collect=False)
    assert (totals.rewrites, bench.left(), totals.untyped_segments, totals.untyped_bytes) == (4, 0, 0, 0)


def test_without_schemas_in_the_registry_merges_go_on(bench: BackfillBench) -> None:
    """Nothing can be judged, which is reported; the rest of maintenance is done."""
    bench.produce({"id": 1})
    bench.produce({"id": 2})
    bench.alter()
    for info in list(bench.store.list("system/schemas/")):
        MemoryStore.delete(bench.store, info.key)
    totals = bench.job(Policy(flushed_min=2)).run_round(collect=False)
    assert (totals.failed_topics, totals.rewrites) == (0, 1)
    assert "has no schema" in bench.events("backfill not possible")[0]["problem"]


@pytest.mark.parametrize("puts", range(8))
def test_killed_anywhere_it_goes_on_from_there(bench: BackfillBench, puts: int) -> None:
    """At each moment readers have every record once; a new process does what is left, and nothing twice."""
    for number in range(4):
        bench.produce({"id": number}, partition=number % 2)
    bench.alter()
    before = bench.records()
    assert isinstance(bench.store, KilledStore)
    bench.store.puts_left = puts
    with contextlib.suppress(Broken):
        bench.job(ONE_BY_ONE).run_round(collect=False)
    bench.store.puts_left = None
    assert bench.records().equals(before)
    left = bench.left()
    assert left == 4 - puts // 2
    bench.report.events.clear()
    bench.job(ONE_BY_ONE).run_round(collect=False)
    assert sum(event["segments_in"] for event in bench.events("rewrite")) == left
    assert (bench.left(), bench.records().equals(before)) == (0, True)
    assert sorted(row["data"]["id"] for row in bench.columns()) == [0, 1, 2, 3]
    bench.assert_whole()
