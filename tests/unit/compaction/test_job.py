"""Rounds of maintenance over a real log in memory: what readers see stays, what is to go goes, and other writers may
interfere.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from compaction.merge_plan import RewriteReason
from compaction.policy import Policy
from compaction.rewrite import RewriteTask, rewrite
from compaction.workers import LocalWorkers
from log_format import layout, limits
from log_format.delta.actions import decode_commit
from log_format.errors import CorruptData
from log_format.topic.changes import AlterTopic, DeleteRecords, DeleteTopic
from log_format.topic.state import TopicState
from tests.support.maintenance_bench import MaintenanceBench

HOUR = 3_600_000


def fill(bench: MaintenanceBench, count: int, *, partitions: int = 1) -> list[bytes]:
    values = [b"v%d" % number for number in range(count)]
    for value in values:
        bench.append(*[(partition, value[-1:], value) for partition in range(partitions)])
        bench.clock.pass_ms(10)
    return values


def test_merging_changes_nothing_for_readers(bench: MaintenanceBench) -> None:
    """Every record at its offset, by fewer files of one partition each; a second round finds nothing to do."""
    bench.create(2)
    values = fill(bench, 16, partitions=2)
    totals = bench.job().run_round(collect=True)
    assert totals.failed_topics == 0
    assert [bench.read(partition) for partition in (0, 1)] == [list(enumerate(values))] * 2
    state = bench.log.refresh()
    assert {segment.path.split("/")[0] for segment in state.manifest.segments()} == {"compacted"}
    assert state.manifest.segment_count() == 2
    bench.assert_whole()
    assert bench.job().run_round(collect=True).rewrites == 0


def test_nothing_is_done_in_a_dry_run(bench: MaintenanceBench) -> None:
    """Plans are told, and not one object is written or deleted."""
    bench.create(1, retention_ms=HOUR)
    fill(bench, 8)
    bench.clock.pass_ms(30 * HOUR)
    bench.store.put("topics/t/segments/orphan.parquet", b"x")
    bench.clock.pass_ms(30 * HOUR)
    before = bench.stored("")
    totals = bench.job(is_dry_run=True).run_round(collect=True)
    assert bench.stored("") == before
    found = {"topics", "waiting_segments", "waiting_bytes"}
    assert not any(value for name, value in totals.as_dict().items() if name not in found)
    told = {event for event, _ in bench.report.events}
    assert {"would expire", "would delete"} <= told


def test_retention_by_age_and_by_size(bench: MaintenanceBench) -> None:
    """Whole segments from the beginning, the log start with them; what is young or within the size stays."""
    bench.create(1, retention_ms=HOUR)
    values = fill(bench, 4)
    bench.clock.pass_ms(HOUR)
    bench.append((0, b"k", b"young"))
    bench.clock.pass_ms(1)
    job = bench.job(Policy())
    assert job.run_round(collect=False).expired_segments == 4
    assert bench.read() == [(4, b"young")]
    bench.commit(AlterTopic(partition_count=None, config={"retention.ms": -1, "retention.bytes": 1}))
    bench.append((0, b"k", b"younger"))
    job.run_round(collect=False)
    assert bench.read() == [(5, b"younger")]
    bench.assert_whole()
    assert values


@pytest.mark.parametrize("cleanup_policy", ["delete", "compact"])
def test_many_segments_go_by_several_commits(bench: MaintenanceBench, cleanup_policy: str) -> None:
    """No commit names more than so many; a round goes on until nothing is left below the log start, whichever process moved
    it.
    """
    bench.create(1, retention_ms=HOUR, cleanup_policy=cleanup_policy)
    fill(bench, 8)
    if cleanup_policy == "delete":
        bench.clock.pass_ms(HOUR)
        bench.append((0, b"k", b"young"))
        bench.clock.pass_ms(1)
    else:
        bench.append((0, b"k", b"young"))
        bench.commit(DeleteRecords(before={0: 8}, removes_max=3))
    before = bench.log.refresh().version
    totals = bench.job(Policy(removes_max=3)).run_round(collect=False)
    assert totals.expired_segments == (8 if cleanup_policy == "delete" else 5)
    assert bench.log.refresh().version == before + (3 if cleanup_policy == "delete" else 2)
    assert bench.log.state.manifest.segment_count() == 1
    assert bench.read() == [(8, b"young")]
    bench.assert_whole()


def test_retention_leaves_a_compacted_topic_alone(bench: MaintenanceBench) -> None:
    """Without ``delete`` in its policy a topic keeps its newest records for ever."""
    bench.create(1, retention_ms=0, retention_bytes=0, cleanup_policy="compact")
    fill(bench, 3)
    bench.clock.pass_ms(HOUR)
    assert bench.job(Policy()).run_round(collect=False).expired_segments == 0


def test_key_compaction_keeps_the_newest_of_each_key(bench: MaintenanceBench) -> None:
    """Offsets stay, as do older records without a key and the newest segment; tombstones go in their time, and then for good."""
    bench.create(1, delete_retention_ms=HOUR)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (None, b"n"), (b"a", b"2"), (b"b", None), (b"c", b"1")):
        bench.append((0, key, value))
    bench.append((0, b"c", b"2"))
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
    job = bench.job(Policy(flushed_min=2, sources_max=6, fan_in=2))
    job.run_round(collect=False)
    assert bench.read() == [(2, b"n"), (3, b"2"), (4, None), (5, b"1"), (6, b"2")]
    bench.clock.pass_ms(HOUR - 1)
    job.run_round(collect=False)
    assert (4, None) in bench.read()
    bench.clock.pass_ms(HOUR)
    job.run_round(collect=False)
    assert bench.read() == [(2, b"n"), (3, b"2"), (5, b"1"), (6, b"2")]
    bench.assert_whole()
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "delete"}))
    bench.assert_whole()


def test_a_tombstone_does_not_go_before_what_it_ends(bench: MaintenanceBench) -> None:
    """When an older segment was overtaken, those behind it wait: else a dead value could be read again."""
    bench.create(1)
    for value in (b"1", b"2", None, b"x", b"y", b"z"):
        bench.append((0, b"k", value))
    bench.job(Policy(flushed_min=2, sources_max=2, fan_in=9)).run_round(collect=False)
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))

    class Overtaken(LocalWorkers):
        """Another process removes the oldest segment when keys are about to be compacted; none is found to be the newest."""

        def compact_keys(self, tasks: Any) -> Any:
            bench.log.refresh()
            bench.commit(TakeAway(tasks[0].sources[0].segment))
            return nullcontext(lambda some: iter([rewrite(self._store, task, np.zeros(0, np.int64)) for task in some]))

    job = bench.job(Policy(flushed_min=9, target_bytes=1))
    job.workers = Overtaken(bench.store)
    job.run_round(collect=False)
    assert [event["outcome"] for event in bench.events("rewrite") if event["reason"] == "keys"] == ["overtaken"]
    assert bench.read() == [(2, None), (3, b"x"), (4, b"y"), (5, b"z")]


def test_what_superseded_a_record_lies_below_the_compacted_offsets(bench: MaintenanceBench) -> None:
    """At each commit, whatever comes after it: a reader that stops there learns how far a missing record may have been
    superseded.
    """
    bench.create(1)
    keys = [b"k", b"other", b"k", b"more", b"k", b"last", b"k", b"end"]
    for key in keys:
        bench.append((0, key, b"x"))
    bench.job(Policy(flushed_min=2, sources_max=2, fan_in=9)).run_round(collect=False)
    bench.commit(AlterTopic(partition_count=None, config={"cleanup.policy": "compact"}))
    bench.job(Policy(flushed_min=9, target_bytes=1)).run_round(collect=False)
    state, newest = TopicState.absent("t"), bench.log.refresh().version
    there, losing = set(range(len(keys))), 0
    for version in range(newest + 1):
        name = layout.commit_key("t", version)
        state = state.apply(decode_commit(bench.store.get(name), name), version)
        left = {offset for offset, _ in bench.read(state=state)}
        gone = {offset for offset in there if offset < state.high_watermark(0)} - left
        for offset in gone:
            successors = [later for later in range(offset + 1, len(keys)) if keys[later] == keys[offset]]
            assert successors[0] < state.keys_compacted[0]
        there, losing = there - gone, losing + bool(gone)
    assert losing == 2, "keys were not compacted by several commits"


class TakeAway:
    """Removes a segment, and moves the log start behind it."""

    def __init__(self, segment: Any) -> None:
        self.segment = segment

    def propose(self, state: Any, now_ms: int) -> Any:
        (run,) = [run for run in state.manifest.runs(0) if run.segment == self.segment]
        return DeleteRecords(before={0: run.end_offset}).propose(state, now_ms)


class Interfering(LocalWorkers):
    """Does something else to the topic after the segments were rewritten, before that is committed."""

    def __init__(self, store: Any, act: Any) -> None:
        super().__init__(store)
        self._act = act

    def rewrite(self, tasks: Any) -> Any:
        done = [rewrite(self._store, task) for task in tasks]
        self._act()
        yield from done


def interfere(bench: MaintenanceBench, act: Any) -> Any:
    job = bench.job(Policy(flushed_min=2))
    job.workers = Interfering(bench.store, act)
    return job.run_round(collect=False)


@pytest.mark.parametrize("offset", [1, 3, -1])
def test_a_deletion_of_records_wins_over_a_rewrite(bench: MaintenanceBench, offset: int) -> None:
    """However it falls between planning and committing, nothing that was deleted comes back."""
    bench.create(1)
    values = fill(bench, 6)
    interfere(bench, lambda: bench.commit(DeleteRecords(before={0: offset})))
    start = offset if offset >= 0 else 6
    assert bench.read() == list(enumerate(values))[start:]
    bench.assert_whole()


def test_a_topic_made_anew_wins_over_a_rewrite(bench: MaintenanceBench) -> None:
    """The old topic's records never enter the new one."""
    bench.create(1)
    fill(bench, 6)

    def make_anew() -> None:
        bench.commit(DeleteTopic())
        bench.create(1)
        bench.append((0, b"k", b"new"))

    totals = interfere(bench, make_anew)
    assert totals.overtaken >= 1
    assert bench.read() == [(0, b"new")]
    bench.assert_whole()


def test_two_at_once_do_each_others_work_once(bench: MaintenanceBench) -> None:
    """The second of two rounds finds the sources gone; readers notice nothing."""
    bench.create(1)
    values = fill(bench, 6)
    totals = interfere(bench, lambda: bench.job(Policy(flushed_min=2)).run_round(collect=False))
    assert totals.overtaken >= 1
    assert bench.read() == list(enumerate(values))
    bench.assert_whole()


def test_what_was_uploaded_too_long_ago_is_not_committed(bench: MaintenanceBench) -> None:
    """The committer's side of the grace: a collector may be about to delete it."""
    bench.create(1)
    values = fill(bench, 6)

    def sleep() -> None:
        bench.clock.pass_ms(limits.SEGMENT_AGE_MAX_MS + 1)

    totals = interfere(bench, sleep)
    assert totals.rewrites == 0
    assert {fields["outcome"] for fields in bench.events("rewrite")} == {"too old"}
    assert bench.read() == list(enumerate(values))


def test_deleted_records_leave_the_files(bench: MaintenanceBench) -> None:
    """``delete-records`` is exact to the offset for Delta readers, too: the head is rewritten without them."""
    bench.create(1)
    values = fill(bench, 4)
    job = bench.job()
    job.run_round(collect=False)
    bench.commit(DeleteRecords(before={0: 2}))
    job.run_round(collect=False)
    state = bench.log.refresh()
    (segment,) = state.manifest.segments()
    (run,) = state.manifest.runs(0)
    assert (run.base_offset, run.end_offset) == (2, 4)
    assert segment.path.startswith(layout.COMPACTED)
    assert bench.read() == list(enumerate(values))[2:]


def test_collection_and_clean_up_say_why_before_they_delete(bench: MaintenanceBench) -> None:
    """Replaced segments, orphans and superseded commits go; each is named with its reason; the topic stays whole."""
    bench.create(1, deleted_file_retention_ms=HOUR)
    values = fill(bench, 120)
    bench.store.put("topics/t/segments/orphan.parquet", b"x")
    bench.store.put("topics/t/compacted/orphan.parquet", b"x")
    job = bench.job(Policy(flushed_min=2))
    job.run_round(collect=True)
    assert bench.events("checkpoint")
    assert not bench.events("delete")
    bench.clock.pass_ms(HOUR + 1)
    job.run_round(collect=True)
    bench.clock.pass_ms(25 * HOUR)
    bench.append((0, b"k", b"more"))
    job.run_round(collect=True)
    whys = {fields["why"].split(",")[0].split(" ")[0] for fields in bench.events("delete")}
    assert whys == {"its", "no", "a"}
    assert not [key for key in bench.stored("") if "orphan" in key]
    assert len(bench.stored("segments/")) == 1
    assert len([key for key in bench.stored("_delta_log/") if key.endswith(".json")]) < 10
    assert len(bench.stored("_cleaned/")) == 1
    assert bench.read() == [*enumerate(values), (120, b"more")]
    bench.assert_whole()


def test_a_damaged_segment_stops_its_rewrite_only(bench: MaintenanceBench) -> None:
    """A rewrite never makes a damaged source's records disappear: it fails, and other topics go on."""
    bench.create(1)
    fill(bench, 4)
    path = bench.log.state.manifest.segments()[1].path
    data = bytearray(bench.store.get(f"topics/t/{path}"))
    data[8] ^= 1
    bench.store.put(f"topics/t/{path}", bytes(data))
    version = bench.log.state.version
    assert bench.job().run_round(collect=False).failed_topics == 1
    assert bench.log.refresh().version == version
    assert bench.events("failed")


def test_records_are_merged_three_times_at_most(bench: MaintenanceBench) -> None:
    """Write amplification is bounded: what went into merges is at most three times what was written."""
    bench.create(1)
    job = bench.job()
    flushed_bytes = 0
    merged_records = 0
    for _ in range(12):
        fill(bench, 4)
        bench.log.refresh()
        flushed_bytes += 4
        job.run_round(collect=False)
    for fields in bench.events("rewrite"):
        assert fields["outcome"] == "committed"
        merged_records += fields["segments_in"]
    assert bench.log.refresh().high_watermark(0) == flushed_bytes
    rewrites = [segment.rewritten.times for segment in live(bench)]
    assert max(rewrites) <= 3
    bench.assert_whole()


def live(bench: MaintenanceBench) -> Any:
    from log_format.checkpoints import checkpoint
    from log_format.topic.live_segments import live_segments

    state = bench.log.refresh()
    return live_segments(checkpoint.reconcile_log(bench.store, "t", state.version, bench.clock.now_ms()))


def test_a_worker_refuses_a_segment_with_other_records_than_the_log_says(bench: MaintenanceBench) -> None:
    """Else a segment that was cut short would take its records with it."""
    bench.create(1)
    fill(bench, 2)
    sources = live(bench)
    wrong = sources[0].runs[0]
    short = type(sources[0])(
        segment=sources[1].segment,
        runs=(wrong, sources[1].runs[0]),
        modification_time_ms=1,
        rewritten=sources[0].rewritten,
    )
    task = RewriteTask(
        number=0, topic="t", reason=RewriteReason.MERGE, sources=(short,), log_starts={}, compression="zstd", now_ms=0
    )
    with pytest.raises(CorruptData):
        rewrite(bench.store, task)
