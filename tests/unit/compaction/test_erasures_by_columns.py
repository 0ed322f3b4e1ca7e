"""Erasures by a condition on typed columns: what is meant goes, nothing else, and statistics rule out most segments."""

from __future__ import annotations

from typing import Any

import pytest

from compaction.policy import Policy
from log_format.cluster.identity import load_cluster
from log_format.errors import CorruptData, RequestRefused
from log_format.ids import random_id
from log_format.inspection.erased import verify_erased
from log_format.records.condition import parse_condition
from log_format.records.erasing import HiddenCondition, hide_condition, reveal_condition
from log_format.topic.clone import as_requested
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from tests.support.backfill_bench import BackfillBench
from tests.support.maintenance_bench import SMALL
from tests.support.registry import record
from tests.support.table_rows import rows_by_log

HOUR_MS = 3_600_000
QUIET = Policy(flushed_min=2_000, flushed_bytes_min=1 << 40, fan_in=10_000, quiet_fan_in=10_000)
"""Merges nothing by itself."""
FIELDS = {"id": "long", "who": "string"}


@pytest.fixture
def bench() -> BackfillBench:
    """A typed topic with three flushes: one of records of before the schema, one with a bad record, one with larger ids."""
    made = BackfillBench()
    made.register(record("Order", **FIELDS))
    made.create(1, compression_type="uncompressed")
    made.produce({"id": 1, "who": "anna-old"}, {"id": 2, "who": "bo-old"}, b"no document")
    made.alter(backfill=False)
    made.produce({"id": 1, "who": "anna"}, {"id": 2, "who": "bo"}, b"bad", None)
    made.produce({"id": 100, "who": "carl"}, {"id": 101, "who": "dora"})
    return made


def ask(bench: BackfillBench, where: str, name: str = "e1", **more: Any) -> Erasure:
    """Ask to erase what the condition holds for."""
    secret = load_cluster(bench.store, random_id).producer_key
    hidden = hide_condition(secret, parse_condition(where))
    erasure = Erasure(erasure_id=name, requested_ms=0, wanted=(), where=hidden, **more)
    made: Erasure = bench.commit(RequestErasure(topic_id=bench.log.refresh().existing_id, erasure=erasure))
    return made


def values(bench: BackfillBench) -> list[bytes | None]:
    return [value for _, value in bench.read(0)]


def erase(bench: BackfillBench) -> dict[str, int]:
    """Carry out what was asked for; what maintenance says that it read."""
    assert bench.job(QUIET).run_round(collect=False).failed_topics == 0, bench.report.events
    assert all(one.is_rewritten for one in bench.log.refresh().erasures)
    return bench.events("erased")[-1]


def test_a_condition_means_records_by_their_columns_and_by_what_they_would_have(bench: BackfillBench) -> None:
    """Also those of before the schema, which are judged for it; records without columns are not meant, nor later ones."""
    before = values(bench)
    ask(bench, "data.id = 1 and data.who in ('anna', 'anna-old')")
    bench.produce({"id": 1, "who": "anna"})
    erase(bench)
    assert values(bench) == [None, *before[1:3], None, *before[4:], b'{"id": 1, "who": "anna"}']
    assert bench.columns()[0] == {"data": None, "key_data": None, "data_error": None}
    (done,) = bench.log.state.erasures
    assert done.record_count == 2
    bench.assert_whole()


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("not data.id = 1", {1, 4, 7, 8}),
        ("data.id is null", {2, 5}),
        ("not (data.id is not null or data.who = 'x')", set()),
        ("data.id >= 100", {7, 8}),
        ("data.id = -1", set()),
    ],
)
def test_null_is_neither_true_nor_false(bench: BackfillBench, where: str, gone: set[int]) -> None:
    """So a bad record is meant by ``is null`` only, also under ``not``; what has no value stays as it is."""
    before = values(bench)
    ask(bench, where)
    erase(bench)
    assert values(bench) == [None if offset in gone else value for offset, value in enumerate(before)]
    bench.assert_whole()


def test_statistics_rule_out_segments_that_are_then_not_read(bench: BackfillBench) -> None:
    """Of three segments one may match by its statistics, one has records that no schema judged, one costs no request."""
    ask(bench, "data.id > 50")
    said = erase(bench)
    assert (said["read_none"], said["read_whole"]) == (1, 1 + 1)
    ask(bench, "data.id > 500", "e2")
    said = erase(bench)
    assert (said["read_none"], said["read_whole"]) == (2, 1)


def test_a_column_that_comes_later_changes_nothing(bench: BackfillBench) -> None:
    """The condition is about the members that it names; segments without a later one have null there."""
    ask(bench, "data.id = 2 or data.age = 7")
    bench.register(record("Order", **FIELDS, age=["null", "int"]).replace('"age",', '"age","default":null,'))
    before = values(bench)
    bench.alter(backfill=False)
    bench.produce({"id": 5, "who": "eve", "age": {"int": 7}})
    after = values(bench)[-1]
    erase(bench)
    assert values(bench) == [None if offset in (1, 4) else value for offset, value in enumerate(before)] + [after]
    bench.assert_whole()


def test_a_record_may_leave_a_gap(bench: BackfillBench) -> None:
    """With ``erase.keep=nothing`` the record goes."""
    ask(bench, "data.who = 'bo'", keep="nothing")
    erase(bench)
    assert [offset for offset, _ in bench.read(0)] == [0, 1, 2, 3, 5, 6, 7, 8]
    bench.assert_whole()


def test_the_check_reads_every_object(bench: BackfillBench) -> None:
    """It names the file of before until it is deleted, also where only the schemas say what its records have."""
    where = parse_condition("data.id = 1")
    with pytest.raises(RequestRefused, match="has this condition"):
        verify_erased(bench.store, "t", where, bench.clock)
    ask(bench, "  data.id=1 ")
    assert [one.record_count for one in verify_erased(bench.store, "t", where, bench.clock).left] == [1, 1]
    bench.produce({"id": 1, "who": "later"})
    erase(bench)
    assert len(verify_erased(bench.store, "t", where, bench.clock).left) == 2
    for _ in range(4):
        bench.clock.pass_ms(13 * HOUR_MS)
        bench.job(QUIET).run_round(collect=True)
    after = verify_erased(bench.store, "t", where, bench.clock)
    assert (after.ok, after.later_count, after.request_count) == (True, 1, 1)


def test_nobody_reads_a_condition_without_the_clusters_key(bench: BackfillBench) -> None:
    """Neither log nor note has its text; another key, and damage, are refused."""
    ask(bench, "data.who = 'secret-person'")
    bench.job(QUIET).run_round(collect=False)
    assert not any(b"secret-person" in bench.store.get(info.key) for info in bench.store.list("topics/t/"))
    (kept,) = bench.log.refresh().erasures
    assert kept.where is not None
    secret = load_cluster(bench.store, random_id).producer_key
    assert reveal_condition(secret, kept.where).text == "`data`.`who` = 'secret-person'"
    for key, hidden in ((b"other", kept.where), (secret, HiddenCondition(kept.where.digest, kept.where.hidden[:-2]))):
        with pytest.raises(CorruptData, match="cluster's key"):
            reveal_condition(key, hidden)


def test_merged_statistics_do_not_hide_records_that_no_schema_judged() -> None:
    """Their bounds know only of the records with columns; the others may be meant all the same."""
    made = BackfillBench()
    made.register(record("Order", **FIELDS))
    made.create(1, compression_type="uncompressed")
    made.produce({"id": -5, "who": "zoe"})
    made.alter(backfill=False)
    for number in range(3):
        made.produce({"id": number, "who": "anna"})
    made.job(SMALL).run_round(collect=False)
    assert len(made.log.refresh().manifest.segments()) == 1
    ask(made, "data.id = -5")
    erase(made)
    assert [value is None for value in values(made)] == [True, False, False, False]


def test_archived_rows_are_erased_and_ruled_out_alike() -> None:
    """Of three archived files one matches; the others, and the one in the log, cost no request."""
    made = BackfillBench()
    made.register(record("Order", **FIELDS))
    made.create(1, compression_type="uncompressed", retention_ms=HOUR_MS, table_retention_ms=-1)
    made.alter(backfill=False)
    for number in range(3):
        made.produce({"id": number, "who": f"person-{number}"})
    made.clock.pass_ms(2 * HOUR_MS)
    made.produce({"id": 3, "who": "person-3"})
    made.job(QUIET).run_round(collect=False)
    assert made.log.refresh().archive.segment_count == 3
    ask(made, "data.who = 'person-1'")
    said = erase(made)
    assert (said["read_none"], said["read_whole"]) == (3, 1)
    found = [value for _, _, _, value in rows_by_log(made.store, "t", made.clock)]
    assert [value for value in found if value is None or b"person-1" in value] == [None]
    made.assert_whole()


def test_a_request_that_is_made_again_in_a_copy_has_its_condition(bench: BackfillBench) -> None:
    """In a clone, and in a restored backup."""
    assert as_requested(ask(bench, "data.id = 1")).where is not None


def test_statistics_say_nothing_of_other_schemas(bench: BackfillBench) -> None:
    """Letters are judged by the schemas of the topic that they came from: columns of their own topic rule out no file of it."""
    bench.register(record("Letter", id="long"), "others")
    ask(bench, "data.id > 500", judged_by=("others", ""))
    assert erase(bench)["read_none"] == 0


def test_a_subject_that_was_made_anew_holds_nothing_up(bench: BackfillBench) -> None:
    """Where letters are judged by a schema whose member has another type now than at the request, none is meant, as if no schema
    could read them; the request comes to its end."""
    bench.register(record("Letter", id="string"), "others")
    ask(bench, "data.id > 500", judged_by=("others", ""))
    before = values(bench)
    bench.produce({"id": "501"})
    erase(bench)
    assert values(bench)[:-1] == before
