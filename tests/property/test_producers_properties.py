"""What a topic remembers of its producers, against a model that forgets nothing: repeats and gaps told apart, nothing doubled."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from log_format import limits
from log_format.errors import ErrorCode, TidelogError
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.producer_id import PLAIN, is_issued, issue, issued_ms, kind_of
from log_format.topic.producers import (
    NO_PRODUCERS,
    ProducerStamp,
    SequenceCheck,
    StampedBatch,
    decode_producers,
    decode_stamps,
    encode_stamps,
)

KEY = b"key"
EXPIRATION_MS = 1_000
IDS = [issue(PLAIN, issued, f"{number:020x}", KEY) for number, issued in enumerate((10, 10, 20, 5_000))]

steps = st.lists(
    st.tuples(st.integers(0, len(IDS) - 1), st.integers(-3, 2), st.integers(0, 700)), min_size=1, max_size=60
)
"""Which producer, how far from its next sequence, how much time passes before."""


@given(steps)
@settings(max_examples=300)
def test_a_request_is_in_the_log_once(taken: list[tuple[int, int, int]]) -> None:
    """Next ones are appended, known ones answered with their places, others refused; forgetting never doubles."""
    producers, now_ms, log = NO_PRODUCERS, 10_000, dict[ProducerStamp, AppendedRange]()
    last_used: dict[str, int] = {}
    for which, distance, passed_ms in taken:
        now_ms += passed_ms
        producer_id = IDS[which]
        expected = producers.expected_sequence(producer_id, 0)
        stamp = ProducerStamp(producer_id, 0, max(0, expected + distance))
        verdict = SequenceCheck(producers, now_ms, EXPIRATION_MS).judge(stamp)
        if verdict is None:
            assert stamp not in log, "it would be there twice"
            log[stamp] = AppendedRange(0, len(log), 1)
            producers = producers.with_batches([StampedBatch(stamp, (log[stamp],))], now_ms, EXPIRATION_MS)
            last_used[producer_id] = now_ms
        elif isinstance(verdict, Duplicate):
            assert verdict.offset_ranges == (log[stamp],)
        elif verdict.code is ErrorCode.SEQUENCE_OUT_OF_ORDER:
            assert verdict.retryable is (stamp.sequence > expected)
            assert verdict.fields["expected_sequence"] == expected
        else:
            assert verdict.code is ErrorCode.UNKNOWN_PRODUCER
            assert any(now_ms - used > EXPIRATION_MS for used in last_used.values())
        assert decode_producers(producers.encoded()) == producers


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(0, 6))
def test_requests_of_one_flush_see_each_other(counts: list[int], first: int) -> None:
    """Within a flush the second one of a producer follows the first; a gap between them is refused."""
    check = SequenceCheck(NO_PRODUCERS, 100, EXPIRATION_MS)
    assert (check.judge(ProducerStamp(IDS[0], 0, first)) is None) is (first == 0)
    for sequence in range(len(counts)):
        stamp = ProducerStamp(IDS[0], 0, sequence)
        assert check.judge(stamp) is None
        check.accept(stamp)
        assert isinstance(check.judge(ProducerStamp(IDS[0], 0, sequence + 2)), TidelogError)


def test_the_least_recently_used_is_forgotten_first_and_never_let_in_again() -> None:
    """Beyond the bound the oldest go; an id issued before one of them is refused, since it may have been one of them."""
    bound = limits.PRODUCERS_PER_TOPIC_MAX
    ids = [issue(PLAIN, 1_000 + number, f"{number:020x}", KEY) for number in range(bound + 2)]
    everybody = [StampedBatch(ProducerStamp(producer_id, 0, 0), ()) for producer_id in ids[:bound]]
    producers = NO_PRODUCERS.with_batches(everybody, 5_000, 10**9)
    producers = producers.with_batches([StampedBatch(ProducerStamp(ids[0], 0, 1), ())], 5_001, 10**9)
    producers = producers.with_batches([StampedBatch(ProducerStamp(ids[bound], 0, 0), ())], 5_002, 10**9)
    assert len(producers) == bound
    assert ids[0] in producers.by_id
    assert ids[1] not in producers.by_id
    assert producers.forgotten_issued_ms == issued_ms(ids[1])
    check = SequenceCheck(producers, 5_003, 10**9)
    forgotten = check.judge(ProducerStamp(ids[1], 0, 0))
    assert isinstance(forgotten, TidelogError)
    assert forgotten.code is ErrorCode.UNKNOWN_PRODUCER
    assert check.judge(ProducerStamp(ids[bound + 1], 0, 0)) is None


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_0() -> None:
    """A newer epoch takes the producer over; what the older one sends is refused, repeats too."""
    producers = NO_PRODUCERS.with_batches([StampedBatch(ProducerStamp(IDS[0], 1, 7), ())], 100, EXPIRATION_MS)
    check = SequenceCheck(producers, 101, EXPIRATION_MS)
    fenced = check.judge(ProducerStamp(IDS[0], 0, 8))
    assert isinstance(fenced, TidelogError)
    assert fenced.code is ErrorCode.FENCED_PRODUCER
    assert check.judge(ProducerStamp(IDS[0], 2, 0)) is None
    ahead = check.judge(ProducerStamp(IDS[0], 2, 1))
    assert isinstance(ahead, TidelogError)
    assert ahead.code is ErrorCode.SEQUENCE_OUT_OF_ORDER
    moved = producers.with_batches([StampedBatch(ProducerStamp(IDS[0], 2, 0), ())], 102, EXPIRATION_MS)
    assert moved.by_id[IDS[0]].epoch == 2
    assert len(moved.by_id[IDS[0]].newest) == 1


@given(st.integers(0, 2**47), st.binary(min_size=1, max_size=40), st.integers(0, 53))
def test_only_what_was_issued_is_known(issued: int, key: bytes, changed: int) -> None:
    """An id proves itself under the key that made it; another key, or one changed character, and it does not."""
    producer_id = issue(PLAIN, issued, "0123456789abcdef0123", key)
    assert is_issued(producer_id, key)
    assert issued_ms(producer_id) == issued
    assert kind_of(producer_id) == PLAIN
    assert not is_issued(producer_id, key + b"x")
    other = "0" if producer_id[changed % len(producer_id)] != "0" else "1"
    position = changed % len(producer_id)
    assert not is_issued(producer_id[:position] + other + producer_id[position + 1 :], key)


def test_a_tag_comes_back() -> None:
    """What an ``add`` says of its stamped requests is what was put in."""
    batches = [StampedBatch(ProducerStamp(IDS[0], 0, 3), (AppendedRange(0, 5, 2), AppendedRange(7, 0, 1)))]
    assert decode_stamps(encode_stamps(batches)) == batches
