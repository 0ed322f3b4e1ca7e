"""Kafka clients' batches through the log: each partition's by itself, from commits, checkpoints, journals and drains."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.errors import ErrorCode, TidelogError
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendedRange, AppendOutcome, Duplicate
from log_format.topic.producer_id import format_number, issue_number
from log_format.topic.producers import ProducerStamp
from tests.support.records import batch_of
from tests.support.topic_bench import TopicBench, TopicUser

DAY_MS = 86_400_000


def of_client(
    gateway: TopicUser, number: int, sequence: int, *values: bytes, partition: int = 0, epoch: int = 0
) -> Batch:
    stamp = ProducerStamp(format_number(number, partition), epoch, sequence)
    return batch_of(gateway.log.state.topic_id, values, partition, stamp=stamp)


def flush(bench: TopicBench, gateway: TopicUser, *batches: Batch) -> Sequence[AppendOutcome]:
    result: Sequence[AppendOutcome] = gateway.committer.commit(Append(batches, bench.new_id)).result
    return result


def codes(outcomes: Sequence[AppendOutcome]) -> list[ErrorCode | None]:
    return [outcome.code if isinstance(outcome, TidelogError) else None for outcome in outcomes]


def number_of(bench: TopicBench, nth: int = 0) -> int:
    return issue_number(bench.clock.now_ms(), f"{nth:06x}")


def test_one_partition_is_refused_and_the_others_stand(bench: TopicBench) -> None:
    """Each batch is judged alone, in one flush: the next, one ahead, the same again, one that goes on from it."""
    gateway, number = bench.create(3), number_of(bench)
    outcomes = flush(
        bench,
        gateway,
        of_client(gateway, number, 0, b"a", b"b"),
        of_client(gateway, number, 7, b"x", partition=1),
        of_client(gateway, number, 0, b"c", partition=2),
        of_client(gateway, number, 0, b"a", b"b"),
        of_client(gateway, number, 2, b"d"),
    )
    assert outcomes[0] == (AppendedRange(0, 0, 2),)
    assert codes(outcomes)[1] is ErrorCode.SEQUENCE_OUT_OF_ORDER
    assert outcomes[2:] == [(AppendedRange(2, 0, 1),), Duplicate((AppendedRange(0, 0, 2),)), (AppendedRange(0, 2, 1),)]


@pytest.mark.parametrize("by_checkpoint", [False, True])
def test_another_gateway_knows_the_newest_five(bench: TopicBench, by_checkpoint: bool) -> None:
    """Of each partition: from the commits, and from a checkpoint when they are gone."""
    first, number = bench.create(2), number_of(bench)
    flush(bench, first, of_client(first, number, 0, b"p", partition=1))
    flush(bench, first, of_client(first, number, 0, b"0"))
    for value in (b"1", b"2", b"3", b"4", b"5", b"6"):
        flush(bench, first, of_client(first, number, int(value), value))
    if by_checkpoint:
        write_checkpoint(bench.store, "flights", first.log.state.version, bench.clock.now_ms())
        for version in range(first.log.state.version + 1):
            bench.store.delete(bench.key(f"{version:020d}.json"))
    other = bench.gateway()
    other.log.refresh()
    version = other.log.state.version
    again = [of_client(other, number, sequence, b"x") for sequence in range(7)]
    outcomes = flush(bench, other, *again)
    assert outcomes[2:] == [Duplicate((AppendedRange(0, offset, 1),)) for offset in range(2, 7)]
    assert codes(outcomes)[:2] == [ErrorCode.SEQUENCE_OUT_OF_ORDER] * 2
    assert flush(bench, other, of_client(other, number, 0, b"x", partition=1)) == [Duplicate((AppendedRange(1, 0, 1),))]
    assert other.log.state.version == version, "what appends nothing commits nothing"
    assert flush(bench, other, of_client(other, number, 7, b"7")) == [(AppendedRange(0, 7, 1),)]


def test_a_forgotten_producer_is_refused_but_in_a_larger_epoch(bench: TopicBench) -> None:
    """Also by a gateway that knows the topic from a checkpoint alone."""
    first, number, other_number = bench.create(1), number_of(bench), number_of(bench, 1)
    flush(bench, first, of_client(first, number, 0, b"a"))
    bench.clock.pass_ms(DAY_MS + 1)
    flush(bench, first, of_client(first, other_number, 0, b"b"))
    assert format_number(number) in first.log.state.producers.numbered.spent
    write_checkpoint(bench.store, "flights", first.log.state.version, bench.clock.now_ms())
    for version in range(first.log.state.version + 1):
        bench.store.delete(bench.key(f"{version:020d}.json"))
    other = bench.gateway()
    other.log.refresh()
    batches = [of_client(other, number, sequence, b"a") for sequence in (0, 1)]
    assert codes(flush(bench, other, *batches)) == [ErrorCode.UNKNOWN_PRODUCER] * 2
    assert flush(bench, other, of_client(other, number, 0, b"c", epoch=1)) == [(AppendedRange(0, 2, 1),)]
    assert codes(flush(bench, other, of_client(other, number, 0, b"a"))) == [ErrorCode.UNKNOWN_PRODUCER]


def test_a_repeat_that_meets_the_first_try_in_a_conflict_is_a_duplicate(bench: TopicBench) -> None:
    """The client sent it to another gateway as well."""
    first, number = bench.create(1), number_of(bench)
    late = bench.gateway()
    late.log.refresh()
    flush(bench, first, of_client(first, number, 0, b"a", b"b"))
    outcomes = flush(bench, late, of_client(late, number, 0, b"a", b"b"), of_client(late, number, 2, b"c"))
    assert outcomes == [Duplicate((AppendedRange(0, 0, 2),)), (AppendedRange(0, 2, 1),)]
