"""Stamped requests through the log: a writer that tries again, whatever it knows, gets the first try's places (G5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.memory import PRODUCERS_KEY
from log_format.errors import CorruptData, ErrorCode, TidelogError
from log_format.stores.local import LocalStore
from log_format.topic import producer_id
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendedRange, AppendOutcome, Duplicate
from log_format.topic.changes import DeleteRecords, DeleteTopic
from log_format.topic.producers import ProducerStamp
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench, TopicUser

DAY_MS = 86_400_000


def issued(bench: TopicBench, number: int = 0) -> str:
    return producer_id.issue(producer_id.PLAIN, bench.clock.now_ms(), f"{number:020x}", b"key")


def stamped(
    bench: TopicBench, gateway: TopicUser, who: str, sequence: int, values: dict[int, list[bytes]], *, epoch: int = 0
) -> Batch:
    batch: Batch = bench.batch(gateway, values)
    batch.stamp = ProducerStamp(who, epoch, sequence)
    return batch


def empty(bench: TopicBench, gateway: TopicUser, who: str, sequence: int) -> Batch:
    batch = stamped(bench, gateway, who, sequence, {0: [b"left out"]})
    stamp, topic_id = batch.stamp, batch.topic_id
    return Batch(
        topic_id=topic_id, records=batch.records[:0], partitions=batch.partitions[:0], record_bytes_max=0, stamp=stamp
    )


def flush(bench: TopicBench, gateway: TopicUser, *batches: Batch) -> Sequence[AppendOutcome]:
    result: Sequence[AppendOutcome] = gateway.committer.commit(Append(batches, bench.new_id)).result
    return result


def once(bench: TopicBench, gateway: TopicUser, who: str, sequence: int, value: bytes = b"x") -> AppendOutcome:
    (outcome,) = flush(bench, gateway, stamped(bench, gateway, who, sequence, {0: [value]}))
    return outcome


def code_of(outcome: AppendOutcome) -> ErrorCode:
    assert isinstance(outcome, TidelogError), outcome
    return outcome.code


def forget_commits(bench: TopicBench, gateway: TopicUser) -> None:
    """Leave the newest checkpoint only, as log clean-up may."""
    for version in range(gateway.log.state.version + 1):
        bench.store.delete(bench.key(f"{version:020d}.json"))


def test_another_gateway_knows_the_request_from_the_commits(bench: TopicBench) -> None:
    """A takeover: a writer with only the log tells a repeat from a new request, and the next one from one that is ahead."""
    first, who = bench.create(2), issued(bench)
    (offset_ranges,) = flush(bench, first, stamped(bench, first, who, 0, {0: [b"a", b"b"], 1: [b"c"]}))
    assert offset_ranges == (AppendedRange(0, 0, 2), AppendedRange(1, 0, 1))
    other = bench.gateway()
    other.log.refresh()
    version = other.log.state.version
    assert once(bench, other, who, 0) == Duplicate((AppendedRange(0, 0, 2), AppendedRange(1, 0, 1)))
    assert code_of(once(bench, other, who, 2)) is ErrorCode.SEQUENCE_OUT_OF_ORDER
    assert other.log.state.version == version, "what appends nothing commits nothing"
    assert once(bench, other, who, 1) == (AppendedRange(0, 2, 1),)


def test_another_gateway_knows_the_request_from_a_checkpoint(bench: TopicBench) -> None:
    """Commits that clean-up deleted, and segments that were removed since, take no memory of a request with them."""
    first, who = bench.create(1), issued(bench)
    for sequence in range(3):
        once(bench, first, who, sequence)
    flush(bench, first, empty(bench, first, who, 3))
    first.committer.commit(DeleteRecords(before={0: 2}))
    write_checkpoint(bench.store, "flights", first.log.state.version, bench.clock.now_ms())
    forget_commits(bench, first)
    other = bench.gateway()
    other.log.refresh()
    assert [once(bench, other, who, sequence) for sequence in range(3)] == [
        Duplicate((AppendedRange(0, sequence, 1),)) for sequence in range(3)
    ]
    assert flush(bench, other, empty(bench, other, who, 3)) == [Duplicate(())]
    assert once(bench, other, who, 4) == (AppendedRange(0, 3, 1),)


def test_a_repeat_that_meets_the_first_try_in_a_conflict_is_a_duplicate(bench: TopicBench) -> None:
    """Re-validation: the same request was committed through another gateway while this one was committing it."""
    first, who = bench.create(1), issued(bench)
    late = bench.gateway()
    late.log.refresh()
    bench.append(first, {0: [b"other"]})
    assert once(bench, first, who, 0) == (AppendedRange(0, 1, 1),)
    version = first.log.state.version
    batches = [stamped(bench, late, who, 0, {0: [b"again"]}), bench.batch(late, {0: [b"plain"]})]
    assert flush(bench, late, *batches) == [Duplicate((AppendedRange(0, 1, 1),)), (AppendedRange(0, 2, 1),)]
    assert late.log.state.version == version + 1
    assert late.log.state.high_watermark(0) == 3


def test_requests_of_one_flush_are_judged_one_after_another(bench: TopicBench) -> None:
    """Next, next but one, the same again, a gap; expected offsets count those before them in the flush; one segment."""
    gateway, who = bench.create(1), issued(bench)
    expecting = [bench.batch(gateway, {0: [b"e"]}) for _ in range(2)]
    for batch, offset in zip(expecting, (2, 2), strict=True):
        batch.expected_offset = offset
    version = gateway.log.state.version
    outcomes = flush(
        bench,
        gateway,
        stamped(bench, gateway, who, 0, {0: [b"0"]}),
        stamped(bench, gateway, who, 1, {0: [b"1"]}),
        stamped(bench, gateway, who, 0, {0: [b"0"]}),
        stamped(bench, gateway, who, 3, {0: [b"3"]}),
        *expecting,
    )
    assert outcomes[:3] == [(AppendedRange(0, 0, 1),), (AppendedRange(0, 1, 1),), Duplicate((AppendedRange(0, 0, 1),))]
    assert code_of(outcomes[3]) is ErrorCode.SEQUENCE_OUT_OF_ORDER
    assert outcomes[4] == (AppendedRange(0, 2, 1),)
    mismatch = outcomes[5]
    assert code_of(mismatch) is ErrorCode.EXPECTED_OFFSET_MISMATCH
    assert isinstance(mismatch, TidelogError)
    assert (mismatch.fields["expected"], mismatch.fields["actual"]) == (2, 3)
    assert gateway.log.state.version == version + 1


def test_a_refused_request_uses_no_sequence_up(bench: TopicBench) -> None:
    """The one behind it in the flush is out of order, and both may come again."""
    gateway, who = bench.create(1), issued(bench)
    wrong = stamped(bench, gateway, who, 0, {0: [b"0"]})
    wrong.expected_offset = 7
    outcomes = flush(bench, gateway, wrong, stamped(bench, gateway, who, 1, {0: [b"1"]}))
    assert [code_of(outcome) for outcome in outcomes] == [
        ErrorCode.EXPECTED_OFFSET_MISMATCH,
        ErrorCode.SEQUENCE_OUT_OF_ORDER,
    ]
    assert [once(bench, gateway, who, sequence) for sequence in range(2)] == [
        (AppendedRange(0, 0, 1),),
        (AppendedRange(0, 1, 1),),
    ]


def test_two_empty_requests_of_a_producer_go_into_two_commits(bench: TopicBench) -> None:
    """A commit can say of one only that it had no records; the other one is told to come again, and is not lost."""
    gateway, who = bench.create(1), issued(bench)
    one, two = (empty(bench, gateway, who, sequence) for sequence in range(2))
    outcomes = flush(bench, gateway, one, two)
    assert outcomes[0] == ()
    second = outcomes[1]
    assert isinstance(second, TidelogError)
    assert (second.code, second.retryable) == (ErrorCode.SEQUENCE_OUT_OF_ORDER, True)
    assert flush(bench, gateway, two) == [()]
    assert flush(bench, gateway, one, two) == [Duplicate(()), Duplicate(())]


def test_forgetting_is_the_same_for_everybody_and_never_doubles(bench: TopicBench) -> None:
    """A reader that replays the log, one that loads a checkpoint and one that was there all the time forget the same
    producers.
    """
    first = bench.create(1, producer_id_expiration_ms=1_000)
    old, young = issued(bench, 1), issued(bench, 2)
    once(bench, first, old, 0)
    bench.clock.pass_ms(600)
    once(bench, first, young, 0)
    bench.clock.pass_ms(600)
    assert code_of(once(bench, first, old, 0)) is ErrorCode.UNKNOWN_PRODUCER
    once(bench, first, young, 1)
    replayed = bench.gateway()
    write_checkpoint(bench.store, "flights", replayed.log.refresh().version, bench.clock.now_ms())
    loaded = bench.gateway()
    for gateway in (first, replayed, loaded):
        producers = gateway.log.refresh().producers
        assert list(producers.by_id) == [young]
        assert producers == first.log.state.producers
        assert code_of(once(bench, gateway, old, 0)) is ErrorCode.UNKNOWN_PRODUCER
        assert once(bench, gateway, young, 1) == Duplicate((AppendedRange(0, 2, 1),))
    newest = issued(bench, 3)
    assert once(bench, loaded, newest, 0) == (AppendedRange(0, 3, 1),)


def test_an_incarnation_begins_with_no_sequences(bench: TopicBench) -> None:
    """The re-created topic knows no producer, also from a checkpoint and for readers that slept through it."""
    first, who = bench.create(1), issued(bench)
    sleeper = bench.gateway()
    once(bench, first, who, 0)
    sleeper.log.refresh()
    first.committer.commit(DeleteTopic())
    bench.create(1)
    write_checkpoint(bench.store, "flights", first.log.refresh().version, bench.clock.now_ms())
    assert len(bench.gateway().log.refresh().producers) == 0
    assert len(sleeper.log.refresh().producers) == 0
    assert once(bench, sleeper, who, 0, b"new") == (AppendedRange(0, 0, 1),)


def on_disk(bench: TopicBench, directory: Path) -> Any:
    bench.store = FaultyStore(LocalStore(directory))
    return bench.create(1)


def test_other_readers_open_a_checkpoint_with_producers(bench: TopicBench, tmp_path: Path) -> None:
    """G9: deltalake reads every record behind our checkpoint, with the commits below it deleted."""
    gateway, who = on_disk(bench, tmp_path), issued(bench)
    for sequence in range(4):
        once(bench, gateway, who, sequence, b"%d" % sequence)
    write_checkpoint(bench.store, "flights", gateway.log.state.version, bench.clock.now_ms())
    forget_commits(bench, gateway)
    once(bench, gateway, who, 4, b"4")
    table = deltalake.DeltaTable(f"{tmp_path}/topics/flights")
    assert table.version() == gateway.log.state.version
    assert sorted(table.to_pyarrow_table(columns=["value"])["value"].to_pylist()) == [b"%d" % n for n in range(5)]


def test_a_checkpoint_of_somebody_else_forgets_and_doubles_nothing(bench: TopicBench, tmp_path: Path) -> None:
    """Another Delta writer's checkpoint says nothing of producers: one that may be in it is refused, a later one is let in."""
    gateway, who = on_disk(bench, tmp_path), issued(bench)
    for sequence in range(3):
        once(bench, gateway, who, sequence)
    deltalake.DeltaTable(f"{tmp_path}/topics/flights").create_checkpoint()
    forget_commits(bench, gateway)
    other = bench.gateway()
    other.log.refresh()
    for sequence in range(5):
        assert code_of(once(bench, other, who, sequence)) is ErrorCode.UNKNOWN_PRODUCER
    bench.clock.pass_ms(DAY_MS)
    later = issued(bench, 1)
    assert once(bench, other, later, 0) == (AppendedRange(0, 3, 1),)
    assert code_of(once(bench, other, who, 3)) is ErrorCode.UNKNOWN_PRODUCER
    write_checkpoint(bench.store, "flights", other.log.state.version, bench.clock.now_ms())
    again = bench.gateway()
    again.log.refresh()
    assert code_of(once(bench, again, who, 0)) is ErrorCode.UNKNOWN_PRODUCER
    assert once(bench, again, later, 0) == Duplicate((AppendedRange(0, 3, 1),))


@pytest.mark.parametrize("damage", [b"", b"?", b"AAAA", b"eJw="])
def test_damaged_producers_in_a_checkpoint_are_found_out(bench: TopicBench, damage: bytes) -> None:
    """Damage is never taken for the absence of producers: the commits tell, and without those nothing opens the topic."""
    gateway, who = bench.create(1), issued(bench)
    once(bench, gateway, who, 0)
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    key = bench.key(f"{version:020d}.checkpoint.parquet")
    table = pq.read_table(pa.BufferReader(bench.store.get(key)))
    assert PRODUCERS_KEY in table.schema.metadata
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({PRODUCERS_KEY: damage}), sink)
    bench.store.put(key, sink.getvalue().to_pybytes())
    again = bench.gateway()
    again.log.refresh()
    assert once(bench, again, who, 0) == Duplicate((AppendedRange(0, 0, 1),))
    bench.store.delete(bench.key(f"{0:020d}.json"))
    with pytest.raises(CorruptData):
        bench.gateway().log.refresh()
