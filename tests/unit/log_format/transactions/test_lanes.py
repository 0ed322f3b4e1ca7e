"""What is staged for a Kafka client's transactions is applied in the order of its sequences, each batch once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.numbered_producers import SEQUENCES
from log_format.transactions.lanes import NO_LANES, Lanes, lanes_after, order_batches
from log_format.transactions.staged_records import StagedLane, StagedName, parse_names, staged_name, topic_hash

TOPIC = topic_hash("t")


def listed(batches: list[tuple[str, StagedLane]]) -> list[StagedName]:
    """As a listing of the staged objects has them; every put has its own name."""
    return parse_names(staged_name(0, topic, lane, f"u{index}") for index, (topic, lane) in enumerate(batches))


def lanes_of(names: tuple[str, ...]) -> list[tuple[str, StagedLane | None]]:
    return [(one.topic_hash, one.lane) for name in names for one in parse_names([name])]


@given(
    st.lists(st.lists(st.integers(1, 5), max_size=6), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.integers(0, 12),
)
def test_each_batch_once_in_order_whatever_the_order_of_staging(
    counts: list[list[int]], random: object, before_the_wrap: int
) -> None:
    """Two transactions of an epoch; batches come in any order, some twice, some of the first late in the second."""
    sequence = SEQUENCES - before_the_wrap
    lanes: Lanes = ((TOPIC, tuple((partition, sequence % SEQUENCES) for partition in range(len(counts)))),)
    earlier: list[tuple[str, StagedLane]] = []
    for _ in range(2):
        sent, expected = [], []
        following = dict(lanes[0][1])
        for partition, of_partition in enumerate(counts):
            for count in of_partition:
                sent.append(("t", StagedLane(partition, following[partition], count)))
                following[partition] = (following[partition] + count) % SEQUENCES
            expected += [(TOPIC, lane) for _, lane in sent if lane.partition == partition]
        arrived = [*sent, *sent[::2], *earlier]
        random.shuffle(arrived)  # type: ignore[attr-defined]
        names, ends = order_batches(listed(arrived), lanes)
        assert lanes_of(names) == expected
        assert dict(ends[0][1]) == following
        assert lanes_after(listed(arrived), lanes) == ends
        lanes, earlier = ends, sent


def test_a_missing_batch_is_noticed_between_others() -> None:
    """At the beginning sequences may be used up: an aborted transaction's batch failed. In between a batch is lost."""
    first, second, third = (StagedLane(0, sequence, 2) for sequence in (0, 2, 4))
    assert len(order_batches(listed([("t", second), ("t", third)]), NO_LANES)[0]) == 2
    with pytest.raises(RequestRefused) as caught:
        order_batches(listed([("t", first), ("t", third)]), NO_LANES)
    assert caught.value.code is ErrorCode.SEQUENCE_OUT_OF_ORDER


def test_topics_and_other_requests_do_not_mix() -> None:
    """A lane is a topic's partition. Requests of HTTP and offsets keep the order of their numbers, behind."""
    keys = [
        staged_name(3, "groups/g", None, "d", suffix=".json"),
        staged_name(0, "t", StagedLane(0, 0, 1), "b"),
        staged_name(1, "t", None, "c"),
        staged_name(0, "a", StagedLane(0, 0, 1), "a"),
    ]
    names, lanes = order_batches(parse_names(keys), NO_LANES)
    assert set(names[:2]) == {keys[1], keys[3]}
    assert names[2:] == (keys[2], keys[0])
    assert {(topic, many) for topic, many in lanes} == {(TOPIC, ((0, 1),)), (topic_hash("a"), ((0, 1),))}
