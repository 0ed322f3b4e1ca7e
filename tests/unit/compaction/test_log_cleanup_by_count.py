"""Clean-up that keeps fewer commits than removed files: readers, lagging writers and the log's own history stay right."""

from __future__ import annotations

import pytest

from compaction.job import Job
from compaction.policy import Policy
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.errors import StoreUnavailable
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.records import batch_of

HOUR = 3_600_000
DAY = 24 * HOUR
KEPT = 150
LATER = 210
"""More than two checkpoints of a topic, which come every 100 commits."""


@pytest.fixture(scope="module", params=[True, False], ids=["bucket", "directory"])
def aged(request: pytest.FixtureRequest) -> MaintenanceBench:
    """A topic that has aged, in a store of either kind. Files are kept for a day."""
    bench = MaintenanceBench(lists_from_key=request.param)
    bench.create(1, commit_retention_count=KEPT)
    age(bench)
    return bench


@pytest.fixture
def bench(aged: MaintenanceBench) -> MaintenanceBench:
    """The same, for one test."""
    return aged.copied()


def grow(bench: MaintenanceBench, count: int) -> None:
    for _ in range(count):
        bench.append((0, b"k", b"%d" % bench.log.state.version))
        bench.clock.pass_ms(1_000)


def age(bench: MaintenanceBench) -> Job:
    """Twice ``LATER`` commits more, a checkpoint behind each half; all but the last rest for two hours.

    Returns the job.
    """
    job = bench.job(Policy(flushed_min=2))
    for _ in range(2):
        grow(bench, LATER)
        job.run_round(collect=False)
    bench.clock.pass_ms(2 * HOUR)
    grow(bench, KEPT)
    return job


def keep(bench: MaintenanceBench, commits: int) -> None:
    bench.commit(AlterTopic(partition_count=None, config={"commit.retention.count": commits}))


def commits(bench: MaintenanceBench) -> list[int]:
    return [version for key in bench.stored("_delta_log/") if (version := layout.commit_version(key)) is not None]


def test_commits_go_and_removed_files_stay(bench: MaintenanceBench) -> None:
    """The commits beyond the count go with the first collection; files that left the table, and their tombstones, do not."""
    before, files = bench.read(), set(bench.stored("segments/"))
    merged = files - {f"topics/t/{segment.path}" for segment in bench.log.refresh().manifest.segments()}
    bench.job(Policy(flushed_min=1_000)).run_round(collect=True)
    assert KEPT < len(commits(bench)) < 2 * KEPT
    assert set(bench.stored("segments/")) == files, "removed files are kept for a day"
    assert bench.read() == before
    bench.assert_whole()
    bench.clock.pass_ms(21 * HOUR)
    bench.job(Policy(flushed_min=1_000)).run_round(collect=True)
    assert set(bench.stored("segments/")) == files, "though their tombstones are named no more"
    bench.clock.pass_ms(3 * HOUR)
    bench.job(Policy(flushed_min=1_000)).run_round(collect=True)
    assert set(bench.stored("segments/")) == files - merged
    assert bench.read() == before
    bench.assert_whole()


def test_every_commit_stays_on_demand(bench: MaintenanceBench) -> None:
    """-1 keeps the commits as long as the files, as it was before there was a count."""
    keep(bench, -1)
    count = len(commits(bench))
    bench.job(Policy(flushed_min=1_000)).run_round(collect=True)
    assert len(commits(bench)) == count
    keep(bench, KEPT)
    bench.job(Policy(flushed_min=1_000)).run_round(collect=True)
    assert len(commits(bench)) < count


def test_a_gateway_that_lags_behind_clean_up(aged: MaintenanceBench) -> None:
    """One that slept since before the deleted commits finds the head, not the hole's edge, and appends behind it."""
    bench = MaintenanceBench(lists_from_key=aged.lists_from_key)
    bench.create(1, commit_retention_count=KEPT)
    grow(bench, 2)
    sleeper = TopicLog(bench.store, "t", bench.clock)
    state = sleeper.refresh()
    job = age(bench)
    job.run_round(collect=True)
    assert min(commits(bench)) > state.version + 1, "what it looks for next is gone"
    end = bench.log.refresh().high_watermark(0)
    batch = batch_of(str(state.topic_id), [b"late"], [0], keys=[b"k"], timestamps_ms=bench.clock.now_ms())
    committed = Committer(sleeper, new_id=bench.new_id, jitter=lambda: 1.0).commit(Append([batch], bench.new_id))
    (places,) = committed.result
    assert isinstance(places, tuple)
    assert [(place.partition, place.base_offset) for place in places] == [(0, end)]
    assert bench.read()[-1] == (end, b"late")
    bench.assert_whole()


@pytest.mark.parametrize("survived", [0, 1, 17])
def test_clean_up_that_dies_in_between(bench: MaintenanceBench, survived: int) -> None:
    """After any number of deletions every reader finds the head, and the next round deletes the rest."""
    before = bench.read()
    real, left = bench.store.delete, [survived]

    def dies(key: str) -> None:
        if not left[0]:
            raise StoreUnavailable(key, "the machine is gone", may_have_happened=False)
        left[0] -= 1
        real(key)

    bench.store.delete = dies  # type: ignore[method-assign]
    assert bench.job(Policy(flushed_min=1_000)).run_round(collect=True).failed_topics == 1
    assert bench.read() == before
    bench.assert_whole()
    bench.store.delete = real  # type: ignore[method-assign]
    assert bench.job(Policy(flushed_min=1_000)).run_round(collect=True).failed_topics == 0
    assert KEPT < len(commits(bench)) < 2 * KEPT
    assert bench.read() == before
    bench.assert_whole()
