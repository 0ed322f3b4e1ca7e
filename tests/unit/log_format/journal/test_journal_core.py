"""The rules of a journal, one by one: first commit, cap, entries that contradict, views, what a drain brings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from log_format import layout, limits
from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.checkpoints.journal_log import journal_table
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.log import TableLog
from log_format.errors import BackOff, ErrorCode, TidelogError, TopicReplaced
from log_format.journal.append import JournalAppend, RoutedBatch
from log_format.journal.drain import Drain
from log_format.journal.entries import Close, Drained, EmptyRequest, Release, attach_entry
from log_format.journal.journal_object import assign_run_offsets
from log_format.journal.notes import JournalNotes
from log_format.journal.state import JournalState
from log_format.journal.topics import NO_TOPICS, TopicsEdit
from log_format.journal.view import AheadOfTable, overlay_journal
from log_format.stores.memory import MemoryStore
from log_format.topic import producer_id
from log_format.topic.append import Append
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.attachment import Attachment, TopicMove, TopicMoved
from log_format.topic.changes import AlterTopic, MoveTopic
from log_format.topic.producers import ProducerStamp
from log_format.topic.state import TopicState
from tests.support.clocks import EPOCH_MS, ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.journal_bench import JournalBench, drained, leave, own
from tests.support.records import batch_of

ROOT = layout.journal_root(0)


@pytest.fixture
def bench() -> JournalBench:
    clock = ManualClock()
    return JournalBench(FaultyStore(MemoryStore(clock=clock)), clock)


def issued(number: int, ms: int = EPOCH_MS) -> str:
    return producer_id.issue(producer_id.PLAIN, ms, f"{number:020x}", b"key")


def test_two_writers_make_the_journal(bench: JournalBench) -> None:
    """Both find no log. One commit has the metadata; the other one follows it and has its records."""
    a, b = bench.topic("a"), bench.topic("b")
    one, other = bench.journal(), bench.journal()
    assert bench.append(one, (a, [b"1"], 0)) == [(AppendedRange(0, 0, 1),)]
    assert bench.append(other, (b, [b"2"], 1)) == [(AppendedRange(1, 0, 1),)]
    first, second = (bench.store.get(f"system/journals/0/_delta_log/{version:020d}.json") for version in (0, 1))
    assert b'"metaData"' in first
    assert b'"metaData"' not in second
    assert set(bench.journal().state.topics.by_id) == {"a-id", "b-id"}


def test_a_commit_has_ten_thousand_runs_at_most(bench: JournalBench) -> None:
    """A run is counted once however many batches have it. What does not fit is refused by itself, and can come again."""
    a = bench.topic("a", partition_count=limits.PARTITION_COUNT_MAX)
    b = bench.topic("b")
    journal = bench.journal()
    every = np.arange(limits.PARTITION_COUNT_MAX)
    wide = batch_of(a.topic_id, [b""] * len(every), every.tolist())
    again = batch_of(a.topic_id, [b"again"], 7)
    more = batch_of(b.topic_id, [b"more"], 1)
    append = JournalAppend([RoutedBatch(a, wide), RoutedBatch(a, again), RoutedBatch(b, more)], bench.new_id)
    committed = bench.committer(journal).commit(append)
    offset_ranges, second, third = committed.result
    assert isinstance(offset_ranges, tuple)
    assert len(offset_ranges) == limits.JOURNAL_RUNS_MAX
    assert second == (AppendedRange(7, 1, 1),)
    assert isinstance(third, BackOff)
    assert third.code is ErrorCode.OVERLOADED
    assert bench.append(journal, (b, [b"more"], 1)) == [(AppendedRange(1, 0, 1),)]
    topic = bench.journal().state.topics.by_id["a-id"]
    assert topic.next_offsets.sum() == limits.PARTITION_COUNT_MAX + 1


@pytest.mark.parametrize(
    "entries",
    [
        [Drained("a-id", [(0, 99)], 0)],
        [Drained("a-id", [(7, 0)], 0)],
        [Drained("b-id", [(0, 1)], 0)],
        [Release("a-id", 1)],
        [Close("a-id", 1), Release("a-id", 1), Drained("a-id", [(0, 1)], 0), Release("a-id", 1)],
        [EmptyRequest("b-id", issued(1), 0, 0)],
    ],
    ids=str,
)
def test_what_contradicts_is_not_said(bench: JournalBench, entries: list[Any]) -> None:
    """An entry that came too late, or from another stay, must not make the log unreadable for ever."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"1"], 0))
    bench.note(journal, *entries)
    assert bench.journal().state.version == journal.state.version


def test_an_attach_of_what_is_open_is_not_said(bench: JournalBench) -> None:
    """Only a closed number may be followed by another one."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"1"], 0))
    bench.note(journal, replace(attach_entry(a), number=5))
    assert bench.journal().state.topics.by_id["a-id"].number == 1


def test_a_flush_is_judged_after_its_notes(bench: JournalBench) -> None:
    """A close that goes with a flush refuses the flush's own batches of that topic."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"1"], 0))
    (outcome,) = bench.append(journal, (a, [b"2"], 0), notes=[Close("a-id", 1)])
    assert isinstance(outcome, TopicMoved)
    bench.note(journal, Close("a-id", 1))
    assert not bench.journal().state.topics.by_id["a-id"].is_open


def test_entries_follow_each_other(bench: JournalBench) -> None:
    """One commit can close and release a topic."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"1"], 0))
    state = bench.note(journal, Close("a-id", 1), Release("a-id", 1))
    assert (dict(state.topics.by_id), dict(state.topics.closed)) == ({}, {"a-id": 1})


def test_objects_are_let_go_of_without_an_entry_but_not_for_an_old_one(bench: JournalBench) -> None:
    """A commit for needless objects alone is made where it is asked for, not by an entry that says nothing new."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"0"], 0))
    drained(bench, "a", journal.state)
    state = bench.note(journal, Drained("a-id", [(0, 1)], 0))
    assert len(state.runs.unneeded(10)) == 1
    assert bench.note(journal, Drained("a-id", [(0, 1)], 0)).version == state.version
    after = bench.note(journal)
    assert (after.version, after.runs.unneeded(10), after.runs.file_count()) == (state.version + 1, [], 0)


def test_a_forgotten_number_stays_closed() -> None:
    """A late close of a smaller number does not bring a topic back that the floor has covered."""
    others = [Close(f"topic-{number}", 2) for number in range(limits.JOURNAL_CLOSED_REMEMBERED)]
    edit = TopicsEdit(NO_TOPICS)
    edit.apply([Close("a", 8), *others], 0)
    assert (edit.topics().floor, len(edit.topics().closed)) == (8, limits.JOURNAL_CLOSED_REMEMBERED)
    edit.apply([Close("a", 3)], 0)
    assert edit.closed_number("a") == 8
    assert edit.topics().next_number("new") == 9


def test_a_move_is_for_its_journal_and_its_topic_alone() -> None:
    """Numbers of two journals may be equal, and those of a topic made anew: the other one's is not closed."""
    state = TopicState.absent("a")
    closed, now = Attachment(0, 5, 5), Attachment(1, 5, 5)
    moved = type("State", (), {"topic": state.topic, "topic_id": "new", "attachment": now})()
    others = TopicMove(closed, closed.following(6), topic_id="new"), TopicMove(now, now.following(6), topic_id="old")
    for other in others:
        with pytest.raises(TopicMoved):
            other.check(moved)
    TopicMove(now, now.following(6), topic_id="new").check(moved)


def test_a_view_by_an_older_state_has_no_hole(bench: JournalBench) -> None:
    """Runs that a later state has forgotten are not skipped: the table is looked at again."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"0"], 0))
    older = journal.state
    drained(bench, "a", older)
    bench.append(journal, (a, [b"1"], 0))
    view = overlay_journal(a, journal.state)
    bench.note(journal, Drained("a-id", [(0, 1)], 0))
    for state in (older, journal.state):
        with pytest.raises(AheadOfTable):
            overlay_journal(a, state)
    bench.note(journal, Drained("a-id", [(0, 1)], 0))
    assert [run.base_offset for run in view.manifest.runs(0)] == [0, 1], "what a reader holds stays whole"
    table = TopicLog(bench.store, "a", bench.clock).refresh()
    now = overlay_journal(table, journal.state)
    assert [(run.base_offset, run.journal) for run in now.manifest.runs(0)] == [(0, None), (1, 0)]
    found = [now.manifest.find(0, offset) for offset in range(3)]
    assert [None if one is None else one.base_offset for one in found] == [0, 1, None]


def test_the_table_counts_for_what_it_has(bench: JournalBench) -> None:
    """Where journal and table have a record, the table decides: key compaction may have dropped it there."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"0"], 0))
    bench.append(journal, (a, [b"1"], 0))
    view = overlay_journal(drained(bench, "a", journal.state), journal.state)
    assert all(run.journal is None for run in view.manifest.runs(0))
    located = view.manifest.find(0, 1)
    assert located is not None
    assert located.journal is None


def test_a_join_by_the_number_of_a_stay_that_has_ended_is_refused(bench: JournalBench) -> None:
    """A gateway chose the number and slept. The topic came to the journal under it, left, and went on by commits of its own.

    The journal would take the next number for the same stay, and give offsets again that the table has given since.
    """
    a, journal = bench.topic("a", None), bench.journal()
    number = journal.state.topics.next_number("a-id")
    join = MoveTopic(topic_id="a-id", move=TopicMove(None, Attachment(0, number, number), seen_version=a.version))
    log = TopicLog(bench.store, "a", bench.clock)
    bench.append(journal, (bench.committer(log).commit(join).state, [b"0"], 0))
    leave(bench, log.state, journal)
    late = TopicLog(bench.store, "a", bench.clock)
    late.refresh()
    own(bench, late, ProducerStamp(issued(1), 0, 0), [b"1", b"2"])
    with pytest.raises(TopicMoved):
        bench.committer(late).commit(join)
    write_table_checkpoint(bench.store, "topics/a/", late.state.version, bench.clock.now_ms())
    loaded = TopicLog(bench.store, "a", bench.clock)
    with pytest.raises(TopicMoved):
        bench.committer(loaded).commit(join)
    number = journal.state.topics.next_number("a-id")
    again = TopicMove(None, Attachment(0, number, number), seen_version=loaded.state.version)
    joined = bench.committer(loaded).commit(MoveTopic(topic_id="a-id", move=again)).state
    assert bench.append(journal, (joined, [b"3"], 0)) == [(AppendedRange(0, 3, 1),)]


def test_a_drain_brings_every_remembered_request(bench: JournalBench) -> None:
    """Also empty ones, whose answers are the same after the topic has left; and in parts, in order."""
    a = bench.topic("a")
    journal = bench.journal()
    stamps = [ProducerStamp(issued(1), 0, sequence) for sequence in range(5)]
    for stamp, values in zip(stamps, ([b"0"], [], [b"1"], [], []), strict=True):
        bench.append(journal, (a, values, 0), stamp=stamp)
    partly = drained(bench, "a", journal.state, [1, 0])
    assert partly.producers.by_id[issued(1)].last_sequence == 1
    log = leave(bench, a, journal)
    assert [own(bench, log, stamp, [b"x"]) for stamp in stamps] == [
        Duplicate(offset_ranges) for offset_ranges in ((AppendedRange(0, 0, 1),), (), (AppendedRange(0, 1, 1),), (), ())
    ]


def test_a_drain_brings_the_batches_of_kafkas_clients(bench: JournalBench) -> None:
    """Of each partition, in parts and once more; and what the journal has forgotten, although the table never knew it."""
    a = bench.topic("a", producer_id_expiration_ms=1_000)
    journal = bench.journal()
    forgotten, number = (producer_id.issue_number(EPOCH_MS, f"{nth:06x}") for nth in range(2))
    old = ProducerStamp(producer_id.format_number(forgotten, 0), 0, 0)
    bench.append(journal, (a, [b"0"], 0), stamp=old)
    bench.clock.pass_ms(2_000)
    stamps = [ProducerStamp(producer_id.format_number(number, 0), 0, sequence) for sequence in (0, 1, 3)]
    for stamp, values in zip(stamps, ([b"1"], [b"2", b"3"], [b"4"]), strict=True):
        bench.append(journal, (a, values, 0), stamp=stamp)
    partly = drained(bench, "a", journal.state, [4, 0])
    lane = partly.producers.numbered.lane(producer_id.format_number(number), 0)
    assert lane is not None
    assert lane.next_sequence == 3
    log = leave(bench, a, journal)
    assert [
        own(bench, log, stamp, values) for stamp, values in zip(stamps[:2], ([b"1"], [b"2", b"3"]), strict=True)
    ] == [
        Duplicate((AppendedRange(0, 1, 1),)),
        Duplicate((AppendedRange(0, 2, 2),)),
    ]
    for stamp in (old, ProducerStamp(producer_id.format_number(forgotten, 0), 0, 1)):
        refused = own(bench, log, stamp, [b"0"])
        assert isinstance(refused, TidelogError)
        assert refused.code is ErrorCode.UNKNOWN_PRODUCER
    assert own(bench, log, stamps[2]._replace(sequence=4), [b"5"]) == (AppendedRange(0, 5, 1),)


def test_a_drain_by_an_older_state_looks_again(bench: JournalBench) -> None:
    """The topic got partitions, and the drainer's log does not know: it finds out, and drains."""
    a = bench.topic("a")
    old, new = (TopicLog(bench.store, "a", bench.clock) for _ in range(2))
    old.refresh()
    journal = bench.journal()
    bench.append(journal, (a, [b"0"], 0))
    bench.note(journal, Close("a-id", 1))
    assert a.attachment is not None
    renumber = TopicMove(a.attachment, a.attachment.following(2), topic_id="a-id")
    more = AlterTopic(partition_count=5, config={}, move=renumber)
    altered = bench.committer(new).commit(more).state
    bench.append(journal, (altered, [b"0"], 4))
    topic = journal.state.topics.by_id["a-id"]
    values = {0: b"0", 4: b"0"}
    tables = [assign_run_offsets(batch_of("x", [value]).records, partition, 0) for partition, value in values.items()]
    drain = Drain(topic, pa.concat_tables(tables), topic.next_offsets, bench.new_id)
    assert bench.committer(old).commit(drain).state.next_offsets.tolist() == [1, 0, 0, 0, 1]


def test_a_drain_is_for_the_topic_whose_records_these_are(bench: JournalBench) -> None:
    """Not for one that was made anew under its name, at the same place."""
    a = bench.topic("a")
    journal = bench.journal()
    bench.append(journal, (a, [b"0"], 0))
    topic = replace(journal.state.topics.by_id["a-id"], topic_id="former")
    table = assign_run_offsets(batch_of("x", [b"0"]).records, 0, 0)
    proposal = Drain(topic, table, topic.next_offsets, bench.new_id).propose(a, EPOCH_MS)
    assert (proposal.result, list(proposal.actions)) == (False, [])


def test_empty_requests_alone_are_drained(bench: JournalBench) -> None:
    """Without a record there is no segment: the commit itself has their tag."""
    a = bench.topic("a")
    journal = bench.journal()
    stamps = [ProducerStamp(issued(1), 0, sequence) for sequence in range(3)]
    for stamp in stamps:
        bench.append(journal, (a, [], 0), stamp=stamp)
    log = leave(bench, a, journal)
    assert [own(bench, log, stamp, [b"x"]) for stamp in stamps] == [Duplicate(())] * 3
    write_table_checkpoint(bench.store, "topics/a/", log.state.version, bench.clock.now_ms())
    assert TopicLog(bench.store, "a", bench.clock).refresh().producers == log.state.producers


def test_what_the_journal_forgot_the_table_does_not_take(bench: JournalBench) -> None:
    """A producer that came and was dropped between two drains could be doubled after the topic has left."""
    a = bench.topic("a", producer_id_expiration_ms=1_000)
    journal = bench.journal()
    gone = ProducerStamp(issued(1), 0, 0)
    bench.append(journal, (a, [b"0"], 0), stamp=gone)
    bench.clock.pass_ms(5_000)
    bench.append(journal, (a, [b"1"], 0), stamp=ProducerStamp(issued(2, EPOCH_MS + 5_000), 0, 0))
    log = leave(bench, a, journal)
    outcome = own(bench, log, gone, [b"0"])
    assert isinstance(outcome, TidelogError)
    assert outcome.code is ErrorCode.UNKNOWN_PRODUCER
    write_table_checkpoint(bench.store, "topics/a/", log.state.version, bench.clock.now_ms())
    assert TopicLog(bench.store, "a", bench.clock).refresh().producers == log.state.producers


def test_a_checkpoint_gives_the_same_journal(bench: JournalBench) -> None:
    """Topics, closed numbers, floor, undrained runs, and objects that no topic needs; commits go on from it.

    It is the same, to the byte, by the log and by what the committer knows.
    """
    a, b = bench.topic("a"), bench.topic("b")
    journal = bench.journal()
    stamp = ProducerStamp(issued(1), 0, 0)
    bench.append(journal, (a, [b"0"], 0), (b, [b"1"], 1), stamp=stamp)
    bench.append(journal, (a, [b"1"], 0))
    drained(bench, "a", journal.state, [1, 0])
    bench.note(journal, Drained("a-id", [(0, 1)], 5), Close("b-id", 1), Close("c-id", 7))
    version, now_ms = journal.state.version, bench.clock.now_ms()
    write_table_checkpoint(bench.store, ROOT, version, now_ms)
    key = layout.table_checkpoint_key(ROOT, version)
    of_the_log = bench.store.get(key)
    bench.store.delete(key)
    write_table_checkpoint(bench.store, ROOT, version, now_ms, journal=journal.state.topics)
    assert bench.store.get(key) == of_the_log
    bench.append(journal, (a, [b"2"], 1))
    loaded = TableLog(bench.store, journal_table(0), bench.clock).refresh()
    assert loaded.version == journal.state.version
    assert loaded.topics.encoded() == journal.state.topics.encoded()
    for topic_id in ("a-id", "b-id"):
        one, other = loaded.runs.of(topic_id), journal.state.runs.of(topic_id)
        assert one is not None
        assert other is not None
        assert list(one.parts()) == list(other.parts())
        assert (one.size_bytes, one.record_count) == (other.size_bytes, other.record_count)
    assert loaded.runs.unneeded(9) == journal.state.runs.unneeded(9)
    assert loaded.topics.memory_bytes == journal.state.topics.memory_bytes
    assert loaded.runs.memory_bytes == journal.state.runs.memory_bytes


def test_an_object_is_uploaded_once(bench: JournalBench) -> None:
    """Another writer's commit comes between: the same object is committed behind it."""
    a, b = bench.topic("a"), bench.topic("b")
    one, other = bench.journal(), bench.journal()
    append = JournalAppend([RoutedBatch(a, batch_of(a.topic_id, [b"1"]))], bench.new_id)
    staged = append.stage(one.state, 0)
    assert staged is not None
    bench.committer(one).stage(staged)
    bench.append(other, (b, [b"2"], 0))
    puts = bench.store.calls["put"]
    committed = bench.committer(one).commit(append)
    assert bench.store.calls["put"] == puts
    assert [of_topic.topic_id for of_topic in append.topic_runs] == ["a-id"]
    assert committed.state.version == 1


def test_a_partition_that_is_not_known_yet_is_refused(bench: JournalBench) -> None:
    """A request that was routed by a newer state meets one with fewer partitions: it is routed again."""
    a, b = bench.topic("a"), bench.topic("b", None)
    (outcome,) = bench.append(bench.journal(), (a, [b"1"], 2))
    assert isinstance(outcome, TopicReplaced)
    (outcome,) = Append([batch_of(b.topic_id, [b"1"], 2)], bench.new_id).propose(b, 0).result
    assert isinstance(outcome, TopicReplaced)


def test_notes_alone_propose_nothing_at_first(bench: JournalBench) -> None:
    """No journal is made for entries that say nothing."""
    assert bench.note(bench.journal()).version == -1
    assert not JournalNotes([Release("a", 1)]).propose(JournalState(journal=0), 0).tags
