"""Delayed records without a notice: nobody delivers them, and they are deleted when nobody can take them for waiting any more."""

from __future__ import annotations

import numpy as np
import pytest

from log_format import limits
from log_format.ids import random_id
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.filing import FiledRequest, find_missed, put_object
from log_format.topic.changes import DeleteTopic
from tests.support.maintenance_bench import MaintenanceBench

HOUR = 3_600_000
DUE_IN_MS = 2 * HOUR


@pytest.fixture
def calendar(bench: MaintenanceBench) -> Calendar:
    """Of topic ``t``, just made."""
    bench.create(1)
    topic_id = bench.log.refresh().topic_id
    assert topic_id is not None
    return Calendar(bench.store, "t", topic_id, bench.clock, random_id)


def filed(calendar: Calendar, bench: MaintenanceBench, name: str, *, is_repeatable: bool = False) -> list[FiledRequest]:
    rows = [{"timestamp": 0, "key": None, "value": b"v", "headers": None}]
    zeros = np.zeros(1, np.int64)
    request = DelayedRecords(
        records=BATCH_SCHEMA.empty_table().from_pylist(rows, schema=BATCH_SCHEMA),
        partitions=zeros.astype(np.int32),
        deliver_at=zeros + bench.clock.now_ms() + DUE_IN_MS,
        indices=zeros,
    )
    return put_object(calendar, name, [request], is_repeatable=is_repeatable, known_version=0)


def forget_notice(bench: MaintenanceBench, name: str) -> None:
    """As if the program had died before it put it."""
    (key,) = [info.key for info in bench.store.list("system/scheduled/") if info.key.endswith(f"~{name}")]
    bench.store.delete(key)


def objects(bench: MaintenanceBench) -> list[str]:
    return [info.key.rpartition("/")[2] for info in bench.store.list("topics/t/scheduled/") if "/objects/" in info.key]


@pytest.mark.parametrize(("is_repeatable", "kept_ms"), [(False, limits.WINDOWS_KEPT_MS), (True, 25 * HOUR)])
def test_what_has_no_notice_goes_a_day_behind_its_time(
    bench: MaintenanceBench, calendar: Calendar, is_repeatable: bool, kept_ms: int
) -> None:
    """Not before; a dry run deletes nothing, and what has a notice stays, however late its gateways are. A program that slept
    between object and notice then sees that its records were missed, and appends them itself."""
    filed(calendar, bench, "noticed")
    slept = filed(calendar, bench, "lost", is_repeatable=is_repeatable)
    forget_notice(bench, "lost")
    bench.clock.pass_ms(DUE_IN_MS + kept_ms + 24 * HOUR)
    assert bench.job().run_round(collect=True).failed_topics == 0
    assert objects(bench) == ["lost", "noticed"]
    bench.clock.pass_ms(1)
    bench.job(is_dry_run=True).run_round(collect=True)
    assert objects(bench) == ["lost", "noticed"]
    assert bench.job().run_round(collect=True).failed_topics == 0
    assert objects(bench) == ["noticed"]
    late = Calendar(bench.store, "t", calendar.topic_id, bench.clock, random_id)
    assert [one.missed.tolist() for one in find_missed(late, slept)] == [[True]]
    assert [window.objects for _, window in late.windows_behind(0)] == [[], ["noticed"]]


def test_what_waited_for_a_topic_that_is_gone_goes_after_a_day(bench: MaintenanceBench, calendar: Calendar) -> None:
    """Whenever it is due: its records are in no topic any more."""
    filed(calendar, bench, "lost")
    forget_notice(bench, "lost")
    bench.committer.commit(DeleteTopic())
    bench.clock.pass_ms(24 * HOUR)
    bench.job().run_round(collect=True)
    assert objects(bench) == ["lost"]
    bench.clock.pass_ms(1)
    bench.job().run_round(collect=True)
    assert objects(bench) == []


def test_they_are_looked_for_once_a_day(bench: MaintenanceBench, calendar: Calendar) -> None:
    """It costs a listing of each topic."""
    job = bench.job()
    job.run_round(collect=True)
    filed(calendar, bench, "lost")
    forget_notice(bench, "lost")
    bench.clock.pass_ms(23 * HOUR)
    job.run_round(collect=True)
    bench.clock.pass_ms(40 * HOUR)
    job.run_round(collect=True)
    assert objects(bench) == []
