"""Maintenance goes on with the manifests of tables that are loaded, and deletes those that nobody needs: of tables that nobody
loads any more, of topics made anew, of erased rows."""

from __future__ import annotations

import pytest

from compaction.job import Job
from compaction.manifest_upkeep import BEHIND_MIN, EVERY_MS
from log_format.iceberg.collecting import objects_with_erased
from log_format.iceberg.manifest import Catalogued
from log_format.iceberg.place import Place
from log_format.iceberg.publishing import NOTED_MS, STRAY_MS, publish
from log_format.topic.changes import DeleteTopic
from tests.support.clocks import HOUR_MS
from tests.support.maintenance_bench import MaintenanceBench


def load(bench: MaintenanceBench, known: Catalogued | None = None) -> Catalogued:
    return publish(Place(bench.store, bench.log.refresh(), bench.clock.now_ms(), bench.new_id), known)


def objects(bench: MaintenanceBench) -> set[str]:
    return {info.key for info in bench.store.list("topics/t/_iceberg/")}


def collect(bench: MaintenanceBench, job: Job | None = None, *, collect: bool = True) -> None:
    assert (job or bench.job()).run_round(collect=collect).failed_topics == 0, bench.report.events


def append(bench: MaintenanceBench, count: int) -> None:
    for number in range(count):
        bench.append((0, b"k%d" % number, b"v"))


@pytest.fixture
def bench() -> MaintenanceBench:
    made = MaintenanceBench()
    made.create(1)
    made.append((0, b"k", b"v"))
    return made


def test_a_table_that_nobody_loads_keeps_nothing(bench: MaintenanceBench) -> None:
    """What was loaded within a day stays; later all of it goes."""
    load(bench)
    bench.clock.pass_ms(STRAY_MS - HOUR_MS)
    collect(bench)
    assert len(objects(bench)) == 2
    bench.clock.pass_ms(2 * HOUR_MS)
    collect(bench)
    assert objects(bench) == set()


def test_what_a_loaded_table_needs_stays(bench: MaintenanceBench) -> None:
    """An old manifest of a table that is loaded each hour; a stray beside it goes."""
    known = load(bench)
    stray = f"topics/t/_iceberg/{known.topic_id}/m-stray.avro"
    bench.store.put(stray, b"")
    bench.clock.pass_ms(STRAY_MS + HOUR_MS)
    for number in range(200):
        bench.append((0, b"k%d" % number, b"v"))
    known = load(bench, known)
    bench.clock.pass_ms(HOUR_MS)
    collect(bench)
    assert {known.snapshot.key, *(one.key for one in known.manifests)} <= objects(bench)
    assert stray not in objects(bench)


def test_a_loaded_table_is_made_in_the_background(bench: MaintenanceBench) -> None:
    """The next load, hours and many commits later, reads no commit and puts nothing. Else it would read them all, or, beyond
    2,000, begin anew."""
    job = bench.job()
    load(bench)
    collect(bench, job)
    append(bench, BEHIND_MIN)
    collect(bench, job, collect=False)
    assert len(objects(bench)) == 2, "not yet"
    bench.clock.pass_ms(EVERY_MS)
    collect(bench, job, collect=False)
    made = objects(bench)
    assert len(made) == 4
    bench.clock.pass_ms(2 * HOUR_MS)
    version = bench.log.refresh().version
    assert load(bench).snapshot.version == version
    assert objects(bench) == made


def test_few_commits_and_loads_of_now_are_left_to_loads(bench: MaintenanceBench) -> None:
    """So a table that is loaded each minute costs what its loads cost."""
    job = bench.job()
    known = load(bench)
    collect(bench, job)
    append(bench, BEHIND_MIN // 4)
    bench.clock.pass_ms(2 * EVERY_MS)
    collect(bench, job, collect=False)
    assert len(objects(bench)) == 2
    append(bench, BEHIND_MIN)
    known = load(bench, known)
    made = objects(bench)
    collect(bench, job, collect=False)
    collect(bench, job)
    assert objects(bench) == made


def test_a_table_that_nobody_loads_any_more_is_not_made(bench: MaintenanceBench) -> None:
    """What maintenance makes counts as no load: a day after the last one nothing is made, and what was is deleted."""
    job = bench.job()
    load(bench)
    collect(bench, job)
    for _ in range(4):
        bench.clock.pass_ms(STRAY_MS // 3)
        append(bench, BEHIND_MIN)
        collect(bench, job)
    assert len(objects(bench)) == 4, "two times within the day"
    bench.clock.pass_ms(STRAY_MS)
    collect(bench, job)
    assert objects(bench) == set()


def test_a_table_that_is_loaded_while_nothing_is_written_stays(bench: MaintenanceBench) -> None:
    """Its loads put nothing new, but every few hours the list again, under the same id."""
    job, known = bench.job(), load(bench)
    first, version = known.manifests, known.snapshot.version
    for number in range(90):
        bench.clock.pass_ms(HOUR_MS // 3)
        known = load(bench, known)
        assert (known.manifests, known.snapshot.version, known.history) == (first, version, ())
        if number % 3 == 0:
            collect(bench, job)
    assert {known.snapshot.key, *(one.key for one in known.manifests)} <= objects(bench)
    assert len(objects(bench)) <= 2 + STRAY_MS // NOTED_MS


def test_nothing_stays_of_a_topic_that_was_deleted(bench: MaintenanceBench) -> None:
    """Its manifests go when they are a day old."""
    load(bench)
    bench.commit(DeleteTopic(topic_id=bench.log.refresh().existing_id))
    bench.clock.pass_ms(STRAY_MS + HOUR_MS)
    collect(bench)
    assert objects(bench) == set()


def test_bounds_of_what_was_erased_are_deleted(bench: MaintenanceBench) -> None:
    """Lists of the table before; those of a version behind the erasure have none."""
    before = load(bench)
    bench.append((0, b"k", b"w"))
    after = load(bench, before)
    until_ms = bench.clock.now_ms() + 1
    version = after.snapshot.version
    found = {info.key for info in objects_with_erased(bench.store, bench.log.state, version, until_ms)}
    assert found == objects(bench) - {after.snapshot.key, *(one.key for one in after.manifests)}
    later = {info.key for info in objects_with_erased(bench.store, bench.log.state, version + 1, until_ms)}
    assert later == objects(bench)
