"""Maintenance carries out requests to erase: nothing of what they name is left, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from compaction.merge_plan import RewriteReason
from compaction.policy import Policy
from compaction.rewrite import RewriteTask, rewrite
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.cluster.identity import load_cluster
from log_format.delta.committer import Committer
from log_format.errors import RequestRefused
from log_format.ids import random_id
from log_format.inspection.erased import verify_erased
from log_format.records.erasing import Matcher, digest_of
from log_format.topic.changes import AlterTopic, DeleteRecords
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure, decode_note, note_key
from log_format.topic.live_segments import live_segments
from log_format.topic.pin_changes import CreatePin
from log_format.topic.rewrite import Rewrite, RewriteOutcome, UploadedFile
from tests.support.backfill_bench import BackfillBench
from tests.support.interfering_workers import InterferingWorkers
from tests.support.killed_store import Broken, KilledStore
from tests.support.maintenance_bench import SMALL, MaintenanceBench
from tests.support.registry import record

HOUR_MS = 3_600_000
QUIET = Policy(flushed_min=2_000, flushed_bytes_min=1 << 40, fan_in=10_000, quiet_fan_in=10_000)
"""Merges nothing by itself."""


def ask(bench: MaintenanceBench, *keys: bytes, name: str = "e1", **more: Any) -> None:
    """Ask to erase what these keys have."""
    secret = load_cluster(bench.store, random_id).producer_key
    wanted = tuple(Matcher(digest_of(secret, key)) for key in keys)
    state = bench.log.refresh()
    erasure = Erasure(erasure_id=name, requested_ms=0, wanted=wanted, **more)
    bench.commit(RequestErasure(topic_id=state.existing_id, erasure=erasure))


def files_with(bench: MaintenanceBench, value: bytes) -> list[str]:
    """Objects of the topic with these bytes: nothing here is compressed."""
    return [info.key for info in bench.store.list("topics/t/") if value in bench.store.get(info.key)]


@pytest.fixture
def bench() -> MaintenanceBench:
    """A topic whose records can be found in the bytes of its objects; three flushes, two with a record of ``anna``."""
    made = MaintenanceBench(make_store=KilledStore)
    made.create(2, compression_type="uncompressed", deleted_file_retention_ms=7 * 24 * HOUR_MS)
    made.append((0, b"anna", b"anna-1"), (0, b"bo", b"bo-1"), (1, b"anna", b"anna-2"))
    made.append((0, b"bo", b"bo-2"))
    made.append((1, b"bo", b"bo-3"), (1, b"anna", b"anna-3"))
    return made


BEFORE = {0: [(0, b"anna-1"), (1, b"bo-1"), (2, b"bo-2")], 1: [(0, b"anna-2"), (1, b"bo-3"), (2, b"anna-3")]}
AFTER = {0: [(0, None), (1, b"bo-1"), (2, b"bo-2")], 1: [(0, None), (1, b"bo-3"), (2, None)]}


def read_all(bench: MaintenanceBench) -> dict[int, list[tuple[int, bytes | None]]]:
    return {partition: bench.read(partition) for partition in (0, 1)}


@pytest.mark.parametrize("policy", [QUIET, SMALL])
def test_what_is_named_goes_and_nothing_else(bench: MaintenanceBench, policy: Policy) -> None:
    """Offsets and other records stay; the request says what it did; segments without such records are not rewritten."""
    ask(bench, b"anna")
    untouched = bench.log.state.manifest.segments()[1].path
    bench.append((0, b"anna", b"anna-later"))
    bench.job(policy).run_round(collect=False)
    later = {0: [*AFTER[0], (3, b"anna-later")], 1: AFTER[1]}
    assert read_all(bench) == later
    (done,) = bench.log.refresh().erasures
    assert (done.record_count, done.is_rewritten) == (3, True)
    assert bench.log.state.table_end(1) == 3
    if policy is QUIET:
        assert untouched in {segment.path for segment in bench.log.state.manifest.segments()}
    bench.assert_whole()


def test_files_go_after_the_grace_time_whatever_else_says(bench: MaintenanceBench) -> None:
    """Also those that merges took out of the table before; then the request is over, and its note stays beside the log."""
    bench.job().run_round(collect=True)
    ask(bench, b"anna")
    bench.job().run_round(collect=True)
    assert files_with(bench, b"anna-")
    bench.clock.pass_ms(24 * HOUR_MS - 1)
    bench.job().run_round(collect=True)
    assert files_with(bench, b"anna-")
    bench.clock.pass_ms(2)
    bench.job().run_round(collect=True)
    assert not files_with(bench, b"anna-")
    assert not bench.log.refresh().erasures
    key = note_key("t", "e1")
    assert decode_note(bench.store.get(key), key).erasure.record_count == 3
    assert b"anna" not in bench.store.get(key)
    assert read_all(bench) == AFTER
    bench.assert_whole()


def test_without_a_grace_time_files_go_in_the_same_round(bench: MaintenanceBench) -> None:
    """A request is over an hour later: a rewrite that read the old files before may still be uploading them."""
    bench.commit(AlterTopic(partition_count=None, config={"erase.grace.ms": 0}))
    ask(bench, b"anna")
    bench.job(QUIET).run_round(collect=True)
    assert not files_with(bench, b"anna-")
    bench.store.put("topics/t/compacted/late.parquet", b"anna-1")
    assert bench.log.refresh().erasures
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.job(QUIET).run_round(collect=True)
    assert bench.log.refresh().erasures, "an object that no commit names has it"
    bench.clock.pass_ms(30 * HOUR_MS)
    bench.job(QUIET).run_round(collect=True)
    assert not files_with(bench, b"anna-")
    assert not bench.log.refresh().erasures


def test_maintenance_may_be_killed_anywhere(bench: MaintenanceBench) -> None:
    """Whatever write it dies before: the next rounds go on, count each record once, and end."""
    store = bench.store
    assert isinstance(store, KilledStore)
    ask(bench, b"anna")
    killed = 0
    for puts_left in range(12):
        store.puts_left = puts_left
        try:
            bench.job(QUIET).run_round(collect=False)
        except Broken:
            killed += 1
        store.puts_left = None
        bench.assert_whole()
        if bench.log.refresh().erasures[0].is_rewritten:
            break
    (done,) = bench.log.state.erasures
    assert (done.is_rewritten, done.record_count, killed > 1) == (True, 3, True)
    assert read_all(bench) == AFTER


def test_a_merge_that_was_planned_before_brings_nothing_back(bench: MaintenanceBench) -> None:
    """Its sources are gone when it is to be committed; what it uploaded is never part of the table."""
    other = bench.job(QUIET)

    def erase() -> None:
        ask(bench, b"anna")
        other.run_round(collect=False)

    job = bench.job(SMALL)
    job.workers = InterferingWorkers(bench.store, erase)
    job.run_round(collect=False)
    assert next(one["outcome"] for one in bench.events("rewrite")) == "overtaken"
    assert read_all(bench) == AFTER
    bench.assert_whole()


def test_a_merge_that_comes_between_is_read_again(bench: MaintenanceBench) -> None:
    """The erasing rewrite fails, and so does its end; the merged segment is read in the same round."""
    ask(bench, b"anna")
    third = bench.log.refresh().manifest.segments()[2]
    job = bench.job(QUIET)

    def merge() -> None:
        log = TopicLog(bench.store, "t", bench.clock)
        state = log.refresh()
        found = checkpoint.reconcile_log(bench.store, "t", state.version, bench.clock.now_ms())
        assert found is not None
        task = RewriteTask(
            number=0,
            topic="t",
            reason=RewriteReason.MERGE,
            sources=tuple(one for one in live_segments(found) if one.segment == third),
            log_starts={},
            compression="uncompressed",
            now_ms=bench.clock.now_ms(),
        )
        change = Rewrite(
            topic_id=state.existing_id,
            sources=[third],
            source_record_count=task.record_count,
            added=rewrite(bench.store, task).added,
            uploaded=UploadedFile("compacted/merged", bench.clock.monotonic_ms()),
        )
        assert Committer(log, new_id=bench.new_id).commit(change).result is RewriteOutcome.COMMITTED

    job.workers = InterferingWorkers(bench.store, merge)
    job.run_round(collect=False)
    assert "overtaken" in {one["outcome"] for one in bench.events("erase")}
    assert bench.log.refresh().erasures[0].is_rewritten
    assert read_all(bench) == AFTER
    bench.assert_whole()


def test_gaps_are_no_damage(bench: MaintenanceBench) -> None:
    """With ``keep`` nothing the records are left out, a whole flush or the newest record too; appends go on."""
    ask(bench, b"anna", keep="nothing")
    bench.job(QUIET).run_round(collect=False)
    kept = {partition: [one for one in rows if one[1] is not None] for partition, rows in AFTER.items()}
    assert read_all(bench) == kept
    bench.append((1, b"anna", b"anna-later"))
    assert read_all(bench)[1] == [*kept[1], (3, b"anna-later")]
    bench.assert_whole()
    ask(bench, b"bo", b"anna", name="e2", keep="nothing")
    bench.job(QUIET).run_round(collect=False)
    assert read_all(bench) == {0: [], 1: []}
    bench.append((0, b"c", b"c"))
    assert read_all(bench)[0] == [(3, b"c")]
    bench.assert_whole()


def test_a_segment_with_gaps_is_merged_with_one_behind_it(bench: MaintenanceBench) -> None:
    """Then the log declares the gaps within the merged one's offsets, too: ``tidelog verify`` finds no damage."""
    ask(bench, b"anna", keep="nothing")
    for number in range(4):
        bench.append((0, b"bo", b"more-%d" % number), (1, b"bo", b"more-%d" % number))
        bench.job().run_round(collect=False)
    merged, *_ = bench.log.refresh().manifest.runs(0)
    assert merged.end_offset > 3, "erased in [0, 3), and merged with what came later"
    assert read_all(bench)[0][:2] == [(1, b"bo-1"), (2, b"bo-2")]
    bench.assert_whole()


def test_a_request_ends_while_rows_stay_in_the_table(bench: MaintenanceBench) -> None:
    """The archive's files are in the table, and hold nothing back."""
    bench.commit(AlterTopic(partition_count=None, config={"retention.ms": HOUR_MS, "table.retention.ms": -1}))
    ask(bench, b"anna")
    bench.job().run_round(collect=True)
    bench.clock.pass_ms(26 * HOUR_MS)
    bench.append((0, b"c", b"young"), (1, b"c", b"young"))
    for _ in range(2):
        bench.job().run_round(collect=True)
        bench.clock.pass_ms(2 * HOUR_MS)
    assert bench.log.refresh().archive.segment_count
    assert not bench.log.state.erasures


def test_erasing_twice_reads_but_writes_nothing(bench: MaintenanceBench) -> None:
    """What has nothing left is not rewritten; requests of one day share one pass."""
    ask(bench, b"anna")
    ask(bench, b"bo", name="e2")
    bench.job(QUIET).run_round(collect=False)
    assert [one.record_count for one in bench.log.refresh().erasures] == [3, 3]
    segments = {segment.path for segment in bench.log.state.manifest.segments()}
    assert len(bench.events("erase")) == 1
    ask(bench, b"anna", name="e3")
    bench.job(QUIET).run_round(collect=False)
    assert {segment.path for segment in bench.log.refresh().manifest.segments()} == segments
    assert [one.record_count for one in bench.log.state.erasures] == [3, 3, 0]
    assert bench.log.state.erasures[2].is_rewritten


def test_deleted_records_go_from_the_files_too(bench: MaintenanceBench) -> None:
    """A record below the log start may still be in a segment that has others."""
    bench.commit(DeleteRecords(before={1: 1}))
    ask(bench, b"anna")
    bench.job(QUIET).run_round(collect=False)
    live = [bench.store.get(f"topics/t/{one.path}") for one in bench.log.refresh().manifest.segments()]
    assert not any(b"anna-" in data for data in live)
    bench.assert_whole()


def test_only_records_of_before_a_time(bench: MaintenanceBench) -> None:
    """Later records of the key stay as they are, in the same segment."""
    time_ms = bench.clock.now_ms() + 10
    bench.append((0, b"anna", b"anna-4"), timestamp_ms=time_ms)
    ask(bench, b"anna", before_ms=time_ms)
    bench.job(SMALL).run_round(collect=False)
    assert read_all(bench) == {0: [*AFTER[0], (3, b"anna-4")], 1: AFTER[1]}


def test_bounds_in_the_log_go_as_well() -> None:
    """Of a typed topic the log says the least and largest name: versions of before go, a checkpoint comes behind the request."""
    bench = BackfillBench()
    bench.register(record("Order", id="long", who="string"))
    bench.create(1, compression_type="uncompressed")
    bench.alter(backfill=False)
    bench.produce({"id": 1, "who": "anna-secret"}, {"id": 2, "who": "bo"}, keys=[b"anna", b"bo"])
    assert any("_delta_log" in key for key in files_with(bench, b"anna-secret"))
    ask(bench, b"anna")
    bench.job(QUIET).run_round(collect=True)
    assert [row["data"] for row in bench.columns()] == [None, {"id": 2, "who": "bo"}]
    bench.commit(AlterTopic(partition_count=None, config={"erase.grace.ms": 0}))
    for _ in range(30):
        bench.clock.pass_ms(20 * 60_000)
        bench.job(QUIET).run_round(collect=True)
        assert bench.log.refresh().erasures or not files_with(bench, b"anna-secret")
    assert not bench.log.refresh().erasures
    bench.assert_whole()


def test_a_pin_keeps_only_files_without_what_was_erased(bench: MaintenanceBench) -> None:
    """Erasure wins over pins: the pinned version loses the files that have it, and keeps the others."""
    state = bench.log.refresh()
    bench.commit(CreatePin(name="p", expires_at_ms=None, topic_id=state.existing_id))
    ask(bench, b"anna")
    bench.job(SMALL).run_round(collect=True)
    pinned = {segment.path for segment in state.manifest.segments()}
    bench.clock.pass_ms(25 * HOUR_MS)
    bench.job(SMALL).run_round(collect=True)
    assert not files_with(bench, b"anna-")
    assert [key for key in bench.stored("segments/") if key.removeprefix("topics/t/") in pinned]
    assert not bench.log.refresh().erasures
    assert bench.log.state.pins
    bench.assert_whole()


def test_a_request_is_not_over_while_a_pin_keeps_bounds() -> None:
    """A pinned version of a typed topic keeps its part of the log: the request ends when the pin does."""
    bench = BackfillBench()
    bench.register(record("Order", id="long", who="string"))
    bench.create(1, compression_type="uncompressed", erase_grace_ms=0)
    bench.alter(backfill=False)
    bench.produce({"id": 1, "who": "anna-secret"}, keys=[b"anna"])
    topic_id = bench.log.refresh().existing_id
    bench.commit(CreatePin(name="p", expires_at_ms=bench.clock.now_ms() + 50 * HOUR_MS, topic_id=topic_id))
    ask(bench, b"anna")
    for _ in range(4):
        bench.job(QUIET).run_round(collect=True)
        bench.clock.pass_ms(12 * HOUR_MS)
        assert bench.log.refresh().erasures
        assert files_with(bench, b"anna-secret")
    bench.clock.pass_ms(12 * HOUR_MS)
    for _ in range(2):
        bench.job(QUIET).run_round(collect=True)
        bench.clock.pass_ms(12 * HOUR_MS)
    assert not bench.log.refresh().erasures
    assert not files_with(bench, b"anna-secret")


def test_the_check_finds_what_is_left(bench: MaintenanceBench) -> None:
    """Before the rewrite and before old files go it names them; then nothing; later records of the key are no failure."""
    with pytest.raises(RequestRefused, match="names this key"):
        verify_erased(bench.store, "t", b"anna", bench.clock)
    ask(bench, b"anna")
    bench.append((0, b"anna", b"anna-later"))
    before = verify_erased(bench.store, "t", b"anna", bench.clock)
    assert ([one.record_count for one in before.left], before.later_count, before.ok) == ([2, 1], 1, False)
    bench.job(QUIET).run_round(collect=True)
    assert {one.key for one in verify_erased(bench.store, "t", b"anna", bench.clock).left} == {
        one.key for one in before.left
    }
    bench.clock.pass_ms(25 * HOUR_MS)
    bench.job(QUIET).run_round(collect=True)
    after = verify_erased(bench.store, "t", b"anna", bench.clock)
    assert (after.ok, after.left, after.later_count, after.request_count) == (True, (), 2, 1)
    with pytest.raises(RequestRefused, match="names this key"):
        verify_erased(bench.store, "t", b"bo", bench.clock)


def test_the_check_reads_what_other_programs_left(bench: MaintenanceBench) -> None:
    """A refused ``OPTIMIZE`` leaves a copy of a person's rows beside the segments; maintenance deletes it, and until then it is
    named. So is a file that can't be read as a segment."""
    ask(bench, b"anna")
    root = layout.topic_root("t")
    (copied, *_) = bench.store.list(f"{root}{layout.SEGMENTS}")
    copy, other = f"{root}{layout.STRAYS}0-c000.zstd.parquet", f"{root}{layout.STRAYS}1-c000.zstd.parquet"
    bench.job(QUIET).run_round(collect=True)
    bench.clock.pass_ms(25 * HOUR_MS)
    data = bench.store.get(copied.key)
    bench.job(QUIET).run_round(collect=True)
    assert verify_erased(bench.store, "t", b"anna", bench.clock).ok
    bench.store.put(copy, data)
    bench.store.put(other, b"no Parquet")
    found = verify_erased(bench.store, "t", b"anna", bench.clock)
    assert ([one.key for one in found.left], found.unread, found.ok) == ([copy], (other,), False)
    for _ in range(3):
        bench.clock.pass_ms(25 * HOUR_MS)
        bench.job(QUIET).run_round(collect=True)
    assert verify_erased(bench.store, "t", b"anna", bench.clock).ok
