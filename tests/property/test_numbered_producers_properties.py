"""What a topic remembers of Kafka clients' producers, against a model that forgets nothing: no batch is ever accepted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.errors import ErrorCode, TidelogError
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.numbered_producers import (
    NO_NUMBERED,
    SEQUENCES,
    ProducerBounds,
    decode_spent,
    encode_spent,
    sequence_difference,
)
from log_format.topic.producer_id import (
    KAFKA,
    PLAIN,
    format_number,
    issue,
    issue_number,
    issued_ms,
    kind_of,
    parse_number,
    split_partition,
)
from log_format.topic.producers import (
    NO_PRODUCERS,
    Producers,
    ProducerStamp,
    SequenceCheck,
    StampedBatch,
    decode_producers,
    decode_stamps,
    encode_stamps,
)

EXPIRATION_MS = 1_000
NUMBERS = [issue_number(issued, f"{index:06x}") for index, issued in enumerate((10, 10, 20, 5_000))]
EPOCHS = 3


class Sent(NamedTuple):
    """A batch as a client sends it: it repeats what it has sent, goes on, leaves a gap, or begins an epoch."""

    which: int
    partition: int
    epoch: int
    distance: int
    record_count: int
    passed_ms: int
    is_drained: bool


sent_batches = st.lists(
    st.builds(
        Sent,
        st.integers(0, len(NUMBERS) - 1),
        st.integers(0, 2),
        st.integers(0, EPOCHS - 1),
        st.integers(-4, 2),
        st.integers(1, 3),
        st.integers(0, 700),
        st.booleans(),
    ),
    min_size=1,
    max_size=60,
)


def stamp_of(number: int, partition: int, epoch: int, sequence: int) -> ProducerStamp:
    return ProducerStamp(format_number(number, partition), epoch, sequence)


def one(stamp: ProducerStamp, base_offset: int, count: int) -> StampedBatch:
    return StampedBatch(stamp, (AppendedRange(split_partition(stamp.producer_id)[1], base_offset, count),))


def judged(producers: Producers, stamp: ProducerStamp, count: int, now_ms: int = 0) -> Duplicate | TidelogError | None:
    counts = ((split_partition(stamp.producer_id)[1], count),)
    return SequenceCheck(producers, now_ms, EXPIRATION_MS).judge(stamp, counts)


def bounded(bounds: ProducerBounds) -> Producers:
    return replace(NO_PRODUCERS, numbered=replace(NO_NUMBERED, bounds=bounds))


def code_of(verdict: object) -> ErrorCode:
    assert isinstance(verdict, TidelogError)
    return verdict.code


@given(sent_batches, st.integers(0, 2), st.integers(1, 4))
@settings(max_examples=150)
def test_no_batch_is_accepted_twice_whatever_is_forgotten(batches: list[Sent], spent_max: int, lanes_max: int) -> None:
    """Nor by the topic's table, which learns from its journal by drains alone."""
    journal = table = bounded(ProducerBounds(lanes_max, spent_max))
    now_ms, offset = 10_000, 0
    log: dict[tuple[ProducerStamp, int], int] = {}
    for one_sent in batches:
        now_ms += one_sent.passed_ms
        lane = format_number(NUMBERS[one_sent.which], one_sent.partition)
        expected = journal.expected_sequence(lane, one_sent.epoch)
        stamp = ProducerStamp(lane, one_sent.epoch, max(0, expected + one_sent.distance))
        verdict = judged(journal, stamp, one_sent.record_count, now_ms)
        if isinstance(verdict, Duplicate):
            assert log[stamp, one_sent.record_count] == verdict.offset_ranges[0].base_offset
        elif verdict is None:
            assert not any(known == stamp for known, _ in log), "its records would be there twice"
            log[stamp, one_sent.record_count] = offset
            journal = journal.with_batches([one(stamp, offset, one_sent.record_count)], now_ms, EXPIRATION_MS)
            offset += one_sent.record_count
        assert decode_producers(journal.encoded()) == journal
        if one_sent.is_drained:
            table = drained(journal, table, now_ms)
            for known, count in log:
                assert judged(table, known, count, now_ms) is not None, "the table would take it again"


def drained(journal: Producers, table: Producers, now_ms: int) -> Producers:
    """The table after a drain, as its commit says it."""
    spent = journal.numbered.spent_unseen_by(table.numbered)
    stamped = [batch for batches in journal.unseen_by(table) for batch in batches]
    table = table.with_spent(decode_spent(encode_spent(spent)))
    if stamped:
        table = table.with_batches(decode_stamps(encode_stamps(stamped)), now_ms, EXPIRATION_MS)
    return table.with_forgotten(journal.forgotten_issued_ms)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 5))
def test_sequences_wrap(counts: list[int], before_the_end: int) -> None:
    """0 follows 2**31 - 1, in one flush and over many; the newest five are known again on both sides."""
    sequence = SEQUENCES - 1 - before_the_end
    producers = NO_PRODUCERS.with_batches([one(stamp_of(NUMBERS[0], 7, 0, sequence), 0, 1)], 1, EXPIRATION_MS)
    check, stamped, offset = SequenceCheck(producers, 1, EXPIRATION_MS), [], 1
    sequence = (sequence + 1) % SEQUENCES
    for count in counts:
        stamp = stamp_of(NUMBERS[0], 7, 0, sequence)
        assert judged(producers, stamp, count) is None
        assert check.judge(stamp, ((7, count),)) is None
        check.accept(stamp, ((7, count),))
        stamped.append(one(stamp, offset, count))
        producers = producers.with_batches(stamped[-1:], 1, EXPIRATION_MS)
        sequence, offset = (sequence + count) % SEQUENCES, offset + count
    at_once = NO_PRODUCERS.with_batches([one(stamp_of(NUMBERS[0], 7, 0, SEQUENCES - 1 - before_the_end), 0, 1)], 1, 1)
    assert at_once.with_batches(reversed(stamped), 1, 1) == producers
    for batch in stamped[-5:]:
        assert judged(producers, batch.stamp, batch.offset_ranges[0].count) == Duplicate(batch.offset_ranges)
    for batch in stamped[:-5]:
        assert code_of(judged(producers, batch.stamp, batch.offset_ranges[0].count)) is ErrorCode.SEQUENCE_OUT_OF_ORDER


@given(st.integers(0, SEQUENCES - 1), st.integers(-(2**30) + 1, 2**30 - 1))
def test_how_far_ahead_is_told_across_the_wrap(expected: int, distance: int) -> None:
    """A sequence is ahead by less than half of all sequences, or behind."""
    assert sequence_difference((expected + distance) % SEQUENCES, expected) == distance


def test_partitions_have_sequences_of_their_own() -> None:
    """One flush takes the first batch of each partition; each is known again, and a longer one with its sequence is refused."""
    stamps = [stamp_of(NUMBERS[0], partition, 0, 0) for partition in range(3)]
    check = SequenceCheck(NO_PRODUCERS, 1, EXPIRATION_MS)
    for partition, stamp in enumerate(stamps):
        assert check.judge(stamp, ((partition, 2),)) is None
        check.accept(stamp, ((partition, 2),))
    producers = NO_PRODUCERS.with_batches([one(stamp, 10, 2) for stamp in stamps], 1, EXPIRATION_MS)
    assert judged(producers, stamps[1], 2) == Duplicate((AppendedRange(1, 10, 2),))
    assert code_of(judged(producers, stamps[1], 3)) is ErrorCode.SEQUENCE_OUT_OF_ORDER
    assert len(producers) == 1
    assert producers.numbered.lane_count == 3


def test_a_newer_epoch_fences_one_partition_and_leaves_the_others() -> None:
    """Batches of other partitions that were on their way when the client began the epoch still count."""
    producers = NO_PRODUCERS.with_batches(
        [one(stamp_of(NUMBERS[0], 0, 1, 0), 0, 1), one(stamp_of(NUMBERS[0], 1, 0, 0), 0, 1)], 1, EXPIRATION_MS
    )
    assert code_of(judged(producers, stamp_of(NUMBERS[0], 0, 0, 1), 1)) is ErrorCode.FENCED_PRODUCER
    assert judged(producers, stamp_of(NUMBERS[0], 1, 0, 1), 1) is None
    assert code_of(judged(producers, stamp_of(NUMBERS[0], 1, 1, 1), 1)) is ErrorCode.SEQUENCE_OUT_OF_ORDER
    assert judged(producers, stamp_of(NUMBERS[0], 1, 1, 0), 1) is None


def test_a_forgotten_producer_goes_on_in_its_next_epoch() -> None:
    """As clients do by themselves. Whatever of its older epochs comes late is refused, in every partition."""
    old, other = stamp_of(NUMBERS[0], 0, 0, 0), stamp_of(NUMBERS[3], 0, 0, 0)
    producers = NO_PRODUCERS.with_batches([one(old, 0, 1)], 1, EXPIRATION_MS)
    producers = producers.with_batches([one(other, 1, 1)], 1 + EXPIRATION_MS + 1, EXPIRATION_MS)
    assert list(producers.numbered.by_id) == [format_number(NUMBERS[3])]
    assert dict(producers.numbered.spent) == {format_number(NUMBERS[0]): 0}
    assert code_of(judged(producers, old, 1)) is ErrorCode.UNKNOWN_PRODUCER
    assert code_of(judged(producers, stamp_of(NUMBERS[0], 5, 0, 0), 1)) is ErrorCode.UNKNOWN_PRODUCER
    again = stamp_of(NUMBERS[0], 5, 1, 0)
    assert judged(producers, again, 1) is None
    producers = producers.with_batches([one(again, 2, 1)], 2_000, EXPIRATION_MS)
    assert not producers.numbered.spent
    assert code_of(judged(producers, old, 1)) is ErrorCode.UNKNOWN_PRODUCER


def test_beyond_the_bound_the_first_issued_spent_id_goes_and_ids_as_old_are_refused() -> None:
    """Of such an id nothing is known, not even which epochs it has used."""
    producers = bounded(ProducerBounds(spent_max=1))
    producers = producers.with_batches([one(stamp_of(n, 0, 0, 0), i, 1) for i, n in enumerate(NUMBERS)], 1, 10)
    producers = producers.with_batches([one(stamp_of(NUMBERS[3], 0, 0, 1), 9, 1)], 100, 10)
    assert list(producers.numbered.spent) == [format_number(NUMBERS[2])]
    assert producers.forgotten_issued_ms == 10
    assert code_of(judged(producers, stamp_of(NUMBERS[0], 0, 9, 0), 1)) is ErrorCode.UNKNOWN_PRODUCER
    assert judged(producers, stamp_of(NUMBERS[2], 0, 1, 0), 1) is None


def test_both_kinds_share_a_memory() -> None:
    """Producers of HTTP and of Kafka clients come back from one checkpoint; their bytes are counted together."""
    plain = ProducerStamp(issue(PLAIN, 10, "0" * 20, b"key"), 0, 0)
    producers = NO_PRODUCERS.with_batches([StampedBatch(plain, (AppendedRange(0, 0, 1),))], 1, EXPIRATION_MS)
    alone = producers.memory_bytes
    producers = producers.with_batches([one(stamp_of(NUMBERS[0], 0, 0, 0), 1, 1)], 1, EXPIRATION_MS)
    assert producers.memory_bytes > alone
    assert decode_producers(producers.encoded()) == producers


@given(st.integers(0, 2**42 - 1), st.integers(0, 2**24 - 1))
def test_a_number_is_positive_and_tells_its_age(issued: int, randomness: int) -> None:
    """Until the year 2109."""
    number = issue_number(issued, f"{randomness:06x}")
    assert 0 <= number < 2**63
    assert issued_ms(format_number(number)) == issued_ms(format_number(number, 9)) == issued
    assert kind_of(format_number(number, 0)) == KAFKA
    assert (parse_number(format_number(number, 3)), split_partition(format_number(number, 3))) == (
        number,
        (format_number(number), 3),
    )


@pytest.mark.parametrize(
    "tag",
    [
        '[["k00000000014000",0,0,[[0,0,1]]]]',
        '[["k0000000001400000",0,0,[[0,0,1]]]]',
        '[["k0000000001400000-1",0,0,[[0,0,1]]]]',
        '[["k0000000001400000-0",0,0,[]]]',
        '[["k0000000001400000-0",0,2147483648,[[0,0,1]]]]',
        '[["k0000000001400000-0",32768,0,[[0,0,1]]]]',
        '[["k0000000001400000-0",0,0,[[0,0,1],[1,0,1]]]]',
    ],
)
def test_a_tag_that_no_client_can_have_caused_is_damaged(tag: str) -> None:
    """It must not lead replay astray."""
    with pytest.raises(ValueError, match=r"Kafka client|no producer id|names no partition"):
        decode_stamps(tag)
