"""Journals stay short without gateways: drained when overdue, released, and their objects deleted in the end."""

from __future__ import annotations

import pytest

from compaction.collection import DeletionReason
from compaction.report import Totals
from compaction.system_tables import JOURNAL_KEPT_MS
from log_format import layout, limits
from log_format.checkpoints.journal_log import journal_table
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.journal.entries import Close
from log_format.topic.attachment import Attachment, TopicMove
from log_format.topic.changes import DeleteTopic, MoveTopic
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.shared_bench import SharedBench, new_id

DRAIN_MS = 60_000


@pytest.fixture
def shared(bench: MaintenanceBench) -> SharedBench:
    """Topics ``a`` and ``b`` at a journal, in the bench's store."""
    made = SharedBench(bench.store, bench.clock)
    made.create("a", "b", drain_ms=DRAIN_MS)
    return made


def round_of(bench: MaintenanceBench, *, collect: bool = False) -> Totals:
    return bench.job().run_round(collect=collect)


def objects(bench: MaintenanceBench) -> int:
    return len(list(bench.store.list(f"{layout.journal_root(0)}segments/")))


def test_what_gateways_leave_undrained_is_drained_after_twice_the_time(
    bench: MaintenanceBench, shared: SharedBench
) -> None:
    """Not before. The journal knows, and has no object any more."""
    shared.flush({"a": [b"0"], "b": [b"0"]})
    bench.clock.pass_ms(2 * DRAIN_MS - 1)
    assert round_of(bench).drains == 0
    bench.clock.pass_ms(1)
    assert round_of(bench).drains == 2
    assert (shared.own("a"), shared.own("b")) == ([1, 0], [1, 0])
    state = shared.journal()
    assert {topic.undrained_since_ms for topic in state.topics.by_id.values()} == {None}
    assert state.runs.file_count() == 0
    assert round_of(bench).drains == 0
    shared.append("a", b"1")
    assert shared.look("a").next_offsets.tolist() == [2, 0]


def test_a_time_far_in_the_future_is_overdue(bench: MaintenanceBench, shared: SharedBench) -> None:
    """The clock of a gateway was ahead: nothing would drain what it appended until that time has come."""
    bench.clock.pass_ms(10 * DRAIN_MS)
    shared.append("a", b"0")
    bench.clock.pass_ms(-10 * DRAIN_MS)
    assert round_of(bench).drains == 1
    assert shared.own("a") == [1, 0]


def test_a_topic_that_can_not_be_drained_stops_no_other(bench: MaintenanceBench, shared: SharedBench) -> None:
    """It is reported, counted and tried again."""
    shared.append("a", b"0")
    for info in list(bench.store.list(f"{layout.journal_root(0)}segments/")):
        bench.store.delete(info.key)
    shared.append("b", b"0")
    bench.clock.pass_ms(2 * DRAIN_MS)
    for _ in range(2):
        totals = round_of(bench)
        assert (totals.failed_drains, totals.failed_topics) == (1, 1)
    assert shared.own("b") == [1, 0]
    assert [fields["topic"] for fields in bench.events("failed")] == ["a", "a"]


def test_a_round_of_one_topic_drains_it_alone(bench: MaintenanceBench, shared: SharedBench) -> None:
    """``tidelog maintain --topic a``."""
    shared.flush({"a": [b"0"], "b": [b"0"]})
    bench.clock.pass_ms(2 * DRAIN_MS)
    assert bench.job(only=["a"]).run_round(collect=False).drains == 1
    assert (shared.own("a"), shared.own("b")) == ([1, 0], [0, 0])


def test_an_earlier_stay_is_released(bench: MaintenanceBench, shared: SharedBench) -> None:
    """The topic left and came back under another number before its first stay was released: that one is not kept."""
    shared.append("a", b"0")
    topic_id = str(shared.log("a").state.topic_id)
    shared.anywhere.note(0, [Close(topic_id, 1)])
    shared.drain("a", note=False)
    committer = Committer(shared.log("a"), new_id=new_id)
    committer.commit(MoveTopic(topic_id=topic_id, move=TopicMove(Attachment(0, 1, 1), topic_id=topic_id)))
    committer.commit(MoveTopic(topic_id=topic_id, move=TopicMove(None, Attachment(0, 2, 2))))
    assert round_of(bench, collect=True).failed_topics == 0
    assert shared.journal().topic(topic_id) is None
    shared.append("a", b"1")
    assert shared.look("a").next_offsets.tolist() == [2, 0]


def test_a_closed_topic_is_drained_at_once(bench: MaintenanceBench, shared: SharedBench) -> None:
    """The program that closed it may have died."""
    shared.append("a", b"0")
    shared.anywhere.note(0, [Close(str(shared.log("a").state.topic_id), 1)])
    round_of(bench)
    assert shared.own("a") == [1, 0]
    shared.append("a", b"1")
    assert shared.look("a").next_offsets.tolist() == [2, 0]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_topic_that_left_is_released(bench: MaintenanceBench, shared: SharedBench, is_deleted: bool) -> None:
    """Back to its own commits, or deleted with records that only the journal had: nothing is kept for it."""
    shared.append("a", b"0")
    topic_id = str(shared.log("a").state.topic_id)
    shared.anywhere.note(0, [Close(topic_id, 1)])
    if is_deleted:
        Committer(shared.log("a"), new_id=new_id).commit(
            DeleteTopic(move=TopicMove(Attachment(0, 1, 1), topic_id=topic_id))
        )
    else:
        shared.drain("a", note=False)
        Committer(shared.log("a"), new_id=new_id).commit(
            MoveTopic(topic_id=topic_id, move=TopicMove(Attachment(0, 1, 1), topic_id=topic_id))
        )
    totals = round_of(bench, collect=True)
    assert totals.failed_topics == 0
    state = shared.journal()
    assert state.topic(topic_id) is None
    assert state.topics.closed_number(topic_id) == 1
    assert state.runs.file_count() == 0


def test_objects_go_an_hour_after_their_records_moved(bench: MaintenanceBench, shared: SharedBench) -> None:
    """And those that no commit named after their grace, behind a fence; commits that a checkpoint covers go, too."""
    shared.append("a", b"0")
    bench.store.put(f"{layout.journal_root(0)}segments/orphan.parquet", b"x")
    bench.clock.pass_ms(2 * DRAIN_MS)
    round_of(bench, collect=True)
    assert (shared.own("a"), objects(bench)) == ([1, 0], 2)
    bench.clock.pass_ms(JOURNAL_KEPT_MS)
    round_of(bench, collect=True)
    assert objects(bench) == 2
    bench.clock.pass_ms(1)
    round_of(bench, collect=True)
    assert objects(bench) == 1
    bench.clock.pass_ms(limits.ORPHAN_GRACE_MS)
    round_of(bench, collect=True)
    assert objects(bench) == 0
    assert [fields["why"] for fields in bench.events("delete")] == [
        DeletionReason.REMOVED.value,
        DeletionReason.ORPHAN.value,
    ]


def test_a_journal_gets_checkpoints_and_its_log_is_cleaned(bench: MaintenanceBench, shared: SharedBench) -> None:
    """A reader that starts from the checkpoint knows what one knows that followed every commit."""
    for number in range(limits.CHECKPOINT_INTERVAL_MIN + 1):
        shared.append("a", b"%d" % number)
    assert round_of(bench).checkpoints == 1
    bench.clock.pass_ms(JOURNAL_KEPT_MS + limits.LOG_KEPT_MS_MIN + 1)
    shared.append("b", b"0")
    before = shared.journal()
    round_of(bench, collect=True)
    state = TableLog(bench.store, journal_table(0), bench.clock).refresh()
    commits = [
        info.key for info in bench.store.list(f"{layout.journal_root(0)}_delta_log/") if info.key.endswith(".json")
    ]
    assert len(commits) < 20
    assert state.topics.by_id.keys() == before.topics.by_id.keys()
    assert shared.look("a").next_offsets.tolist() == [limits.CHECKPOINT_INTERVAL_MIN + 1, 0]
    again = SharedBench(bench.store, bench.clock)
    assert again.look("b").next_offsets.tolist() == [1, 0]


def test_a_dry_run_says_what_it_would_do(bench: MaintenanceBench, shared: SharedBench) -> None:
    """And does nothing."""
    shared.append("a", b"0")
    bench.clock.pass_ms(2 * DRAIN_MS)
    before = sorted(info.key for info in bench.store.list(""))
    assert bench.job(is_dry_run=True).run_round(collect=True).drains == 0
    assert sorted(info.key for info in bench.store.list("")) == before
    assert [fields["topic"] for fields in bench.events("would drain")] == ["a"]
