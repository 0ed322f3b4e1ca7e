"""Topics at a journal, for programs without a gateway: appended to, looked at, drained, wherever they are."""

from __future__ import annotations

import numpy as np
import pytest

from log_format.delta.committer import Committer
from log_format.errors import StoreUnavailable
from log_format.inspection.verify import verify_topic
from log_format.journal.drain import plan_drain
from log_format.journal.entries import Close
from log_format.journal.refresh import refresh_topics
from log_format.journal.view import journal_topic
from log_format.limits import HEAD_TRUSTED_MS
from log_format.records.typed_columns import CELLS_MAX
from log_format.stores.memory import MemoryStore
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.attachment import Attachment, TopicMove
from log_format.topic.changes import DeleteTopic, MoveTopic
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore, nothing
from tests.support.records import batch_of
from tests.support.shared_bench import SharedBench, new_id


@pytest.fixture
def bench() -> SharedBench:
    made = SharedBench(MemoryStore(), ManualClock())
    made.create("t")
    return made


def test_a_batch_goes_where_the_topic_is(bench: SharedBench) -> None:
    """The topic's own table is untouched while it is at a journal; offsets go on across its moves."""
    bench.create("own", is_shared=False)
    assert bench.append("own", b"0") == (AppendedRange(0, 0, 1),)
    assert bench.own("own") == [1, 0]
    assert bench.append("t", b"0", b"1") == (AppendedRange(0, 0, 2),)
    assert bench.append("t", b"2", partition=1) == (AppendedRange(1, 0, 1),)
    assert bench.own("t") == [0, 0]
    assert bench.look("t").next_offsets.tolist() == [2, 1]
    bench.drain("t")
    assert bench.own("t") == bench.look("t").next_offsets.tolist() == [2, 1]
    assert bench.append("t", b"3") == (AppendedRange(0, 2, 1),)
    assert [one.end_offset for one in bench.look("t").manifest.runs(0)] == [2, 3]


def test_a_drain_that_the_journal_does_not_know_of_changes_nothing_for_readers(bench: SharedBench) -> None:
    """Each record once, in the table where both have it; a second drain commits nothing."""
    bench.append("t", b"0", b"1")
    bench.drain("t", note=False)
    bench.append("t", b"2")
    runs = bench.look("t").manifest.runs(0)
    assert [(one.base_offset, one.end_offset, one.journal) for one in runs] == [(0, 2, None), (2, 3, 0)]
    bench.drain("t")
    version = bench.log("t").state.version
    bench.drain("t")
    assert bench.log("t").refresh().version == version


def test_a_drain_takes_as_many_steps_as_its_bound_asks_for(bench: SharedBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a commit, and goes on behind the one before, though the journal is told at the end only."""
    bench = SharedBench(MemoryStore(), ManualClock(), drain_bytes_max=1)
    bench.create("t")
    for number in range(4):
        bench.append("t", b"%d" % number)
    version = bench.log("t").state.version
    bench.drain("t")
    assert bench.own("t") == [4, 0]
    assert bench.log("t").state.version == version + 4


def test_a_drain_counts_the_places_of_columns(bench: SharedBench) -> None:
    """Tiny records of a topic with very many columns are drained in steps, whatever their bytes."""
    for number in range(4):
        bench.append("t", b"%d" % number)
    own, at = bench.log("t").refresh(), bench.journals.get(0).refresh()
    known = journal_topic(own, at)
    assert known is not None
    runs = at.runs.of(known.topic_id)
    for width, taken in ((0, 4), (4 * CELLS_MAX, 2), (4 * CELLS_MAX + 1, 1)):
        ends, parts = plan_drain(known, runs, own.next_offsets, width=width)
        assert (ends.tolist(), len(parts)) == ([taken, 0], taken)


def test_a_reader_copes_with_a_topic_that_was_looked_at_before_its_journal(bench: SharedBench) -> None:
    """The journal has forgotten what the known state of the topic lacks: the topic is looked at again."""
    bench.append("t", b"0")
    reader = SharedBench(bench.store, bench.clock)
    assert reader.look("t").high_watermark(0) == 1
    bench.drain("t")
    bench.append("t", b"1")
    assert reader.look("t").high_watermark(0) == 2
    assert [one.journal for one in reader.look("t").manifest.runs(0)] == [None, 0]


def test_many_topics_cost_one_look_at_their_journal(bench: SharedBench) -> None:
    """The reader does not look at unchanged topics, for a while."""
    names = [f"t{number}" for number in range(20)]
    bench.create(*names)
    bench.append("t", b"0")
    store = FaultyStore(bench.store)
    reader = SharedBench(store, bench.clock)
    logs = [reader.log(name) for name in names]
    refresh_topics(logs, reader.journals.get)
    for name in names:
        bench.append(name, b"0")
    store.calls.clear()
    assert {state.high_watermark(0) for state in refresh_topics(logs, reader.journals.get)} == {1}
    assert store.calls == {"get": 21}  # the commits of the journal, and the probe for the next one
    store.calls.clear()
    refresh_topics(logs, reader.journals.get)
    assert store.calls == {"get": 1}
    bench.clock.sleep_ms(HEAD_TRUSTED_MS + 1)
    store.calls.clear()
    refresh_topics(logs, reader.journals.get)
    assert store.calls["get"] >= 21


@pytest.mark.parametrize("moves", ["leaves", "is deleted", "is closed"])
def test_a_topic_that_moves_between_looks(bench: SharedBench, moves: str) -> None:
    """A reader that knows the topic at the journal sees what was acknowledged elsewhere since."""
    bench.append("t", b"0")
    reader = SharedBench(bench.store, bench.clock)
    reader.look("t")
    state = bench.log("t").refresh()
    assert state.topic_id is not None
    bench.anywhere.note(0, [Close(state.topic_id, 1)])
    bench.drain("t")
    if moves == "leaves":
        Committer(bench.log("t"), new_id=new_id).commit(
            MoveTopic(topic_id=state.topic_id, move=TopicMove(Attachment(0, 1, 1), topic_id=state.topic_id))
        )
        bench.append("t", b"1")
        assert bench.own("t") == [2, 0]
        assert reader.look("t").high_watermark(0) == 2
    elif moves == "is deleted":
        Committer(bench.log("t"), new_id=new_id).commit(
            DeleteTopic(move=TopicMove(Attachment(0, 1, 1), topic_id=state.topic_id))
        )
        assert not reader.look("t").exists
    else:
        assert reader.look("t").high_watermark(0) == 1


def test_a_changer_that_died_is_overtaken(bench: SharedBench) -> None:
    """The number is closed and nothing follows: after two seconds the topic gets the next one, and the batch is appended."""
    bench.append("t", b"0")
    state = bench.log("t").refresh()
    assert state.topic_id is not None
    bench.anywhere.note(0, [Close(state.topic_id, 1)])
    before = bench.clock.monotonic_ms()
    assert bench.append("t", b"1") == (AppendedRange(0, 1, 1),)
    assert 2_000 <= bench.clock.monotonic_ms() - before <= 3_000
    assert bench.log("t").state.attachment == Attachment(0, 2, 1)


def test_a_transaction_is_applied_once_wherever_the_topic_went(bench: SharedBench) -> None:
    """By the journal, drained, by the topic's own commits, by the journal again: the places are the first ones."""
    state = bench.log("t").refresh()
    stamp = TransactionStamp("x", 5, 0)

    def apply() -> object:
        return bench.anywhere.append(bench.log("t"), batch_of(state.topic_id, [b"0"], 1, transaction=stamp))

    offset_ranges = (AppendedRange(1, 0, 1),)
    assert apply() == offset_ranges
    assert apply() == Duplicate(offset_ranges)
    bench.drain("t")
    assert apply() == Duplicate(offset_ranges)
    assert state.topic_id is not None
    bench.anywhere.note(0, [Close(state.topic_id, 1)])
    Committer(bench.log("t"), new_id=new_id).commit(
        MoveTopic(topic_id=state.topic_id, move=TopicMove(Attachment(0, 1, 1), topic_id=state.topic_id))
    )
    assert apply() == Duplicate(offset_ranges)
    back = Attachment(0, 2, 2)
    Committer(bench.log("t"), new_id=new_id).commit(MoveTopic(topic_id=state.topic_id, move=TopicMove(None, back)))
    assert apply() == Duplicate(offset_ranges)
    assert bench.append("t", b"1", partition=1) == (AppendedRange(1, 1, 1),)


def test_a_large_batch_does_not_go_by_the_journal() -> None:
    """It would be held in memory by whatever drains it. The topic is back at its journal afterwards."""
    bench = SharedBench(MemoryStore(), ManualClock(), direct_bytes_min=1_000)
    bench.create("t")
    bench.append("t", b"0")
    assert bench.append("t", b"1" * 2_000) == (AppendedRange(0, 1, 1),)
    assert bench.own("t") == [2, 0]
    assert bench.log("t").state.attachment == Attachment(0, 2, 2)
    assert bench.append("t", b"2") == (AppendedRange(0, 2, 1),)
    assert bench.own("t") == [2, 0]
    assert bench.look("t").next_offsets.tolist() == [3, 0]
    bench.drain("t")
    assert verify_topic(bench.store, "t", clock=bench.clock).ok
    (known,) = bench.journal().topics.by_id.values()
    assert np.array_equal(known.drained, known.next_offsets)


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_program_that_dies_in_a_large_append_leaves_a_whole_topic(is_behind: bool) -> None:
    """At each of its changes: the batch is there once after a repeat, and so is all that others appended."""
    died = 0
    while True:
        store = FaultyStore(MemoryStore())
        bench = SharedBench(store, ManualClock(), direct_bytes_min=1_000)
        bench.create("t")
        bench.append("t", b"0")
        stamp = TransactionStamp("x", 5, 0)
        batch = batch_of(bench.log("t").state.topic_id, [b"1" * 2_000], transaction=stamp)
        steps = Dying(died)
        store.before, store.after = (nothing, steps) if is_behind else (steps, nothing)
        try:
            bench.anywhere.append(bench.log("t"), batch)
        except Died:
            store.before = store.after = nothing
            bench = SharedBench(store, bench.clock, direct_bytes_min=1_000)
            assert bench.append("t", b"2") in {(AppendedRange(0, 1, 1),), (AppendedRange(0, 2, 1),)}
            bench.anywhere.append(bench.log("t"), batch)
            died += 1
        else:
            break
        assert bench.look("t").next_offsets.tolist() == [3, 0]
        bench.drain("t")
        assert bench.own("t") == [3, 0]
        report = verify_topic(store, "t", clock=bench.clock)
        assert report.ok, report
    assert died >= 8


@pytest.mark.parametrize("what", ["everything behind the append", "the journal behind the leave"])
def test_an_append_that_stands_is_told_whatever_becomes_of_its_topics_place(what: str) -> None:
    """Else a caller would repeat it: a store that fails later makes no refusal of a batch that is in the log."""
    store = FaultyStore(MemoryStore())
    bench = SharedBench(store, ManualClock(), direct_bytes_min=1_000)
    bench.create("t")
    bench.append("t", b"0")
    is_of_journal = what.startswith("the journal")
    seen: list[str] = []

    def fail(operation: str, key: str) -> None:
        if is_of_journal:
            is_late = operation == "put_if_absent" and key.startswith("system/journals") and "closed" in seen
        else:
            is_late = "appended" in seen
        if is_late:
            raise StoreUnavailable(key, "planted", may_have_happened=False)

    def note(operation: str, key: str) -> None:
        if operation == "put_if_absent" and key.startswith("system/journals"):
            seen.append("closed")
        if key.startswith("topics/t/segments/") and operation.startswith("put"):
            seen.append("segment")  # that of the drain, then that of the append
        if key.startswith("topics/t/_delta_log/") and operation == "put_if_absent" and seen.count("segment") == 2:
            seen.append("appended")

    store.before, store.after = fail, note
    assert bench.append("t", b"1" * 2_000) == (AppendedRange(0, 1, 1),)
    store.before = store.after = nothing
    assert bench.own("t") == [2, 0]
    assert bench.append("t", b"2") == (AppendedRange(0, 2, 1),)
    assert bench.look("t").next_offsets.tolist() == [3, 0]
    assert verify_topic(store, "t", clock=bench.clock).ok


class Died(BaseException):
    """The program is gone: no handler runs."""


class Dying:
    """A hook that ends the program at its ``calls_left``-th change."""

    def __init__(self, calls_left: int) -> None:
        self._calls_left = calls_left

    def __call__(self, operation: str, _key: str) -> None:
        if operation.startswith("put"):
            self._calls_left -= 1
            if self._calls_left < 0:
                raise Died
