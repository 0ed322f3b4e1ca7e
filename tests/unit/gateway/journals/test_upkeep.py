"""When drains begin: late in ``drain.ms``, or earlier where so many are due that the last would be late."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gateway.journals.upkeep import drain_age_ms, must_begin_early
from log_format.journal.topics import JournalTopic
from log_format.topic.applied_transactions import NO_TRANSACTIONS
from log_format.topic.producers import NO_PRODUCERS

DRAIN_MS = 10_000
NOW_MS = 1_000_000


def topics(ages_ms: Sequence[int | None], drain_ms: int = DRAIN_MS) -> list[JournalTopic]:
    """With records that wait for so long; None: without any."""
    offsets = np.zeros(1, np.int64)
    return [
        JournalTopic(
            topic_id=f"{number}", name=f"t{number}", number=1, first=1, is_open=True, settings=(0, drain_ms, 1),
            next_offsets=offsets, drained=offsets, producers=NO_PRODUCERS, transactions=NO_TRANSACTIONS,
            undrained_since_ms=None if age is None else NOW_MS - age,
        )
        for number, age in enumerate(ages_ms)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ages_ms", "takes_ms", "count"),
    [
        ([4_500] * 1_000, 5.0, 1_000),  # the last of them would end at 10.5 s
        ([3_500] * 1_000, 5.0, 0),
        ([7_000] * 100, 5.0, 0),  # time enough until three quarters
        ([2_000] * 1_000, 50.0, 0),  # not before a quarter, however slow
        (list(range(0, 7_000, 7)), 5.0, 0),  # spread over the time they have room
        ([None] * 1_000, 5.0, 0),
    ],
)
def test_drains_that_come_together_begin_earlier(ages_ms: list[int | None], takes_ms: float, count: int) -> None:
    """As many as must, no more."""
    assert len(must_begin_early(topics(ages_ms), NOW_MS, takes_ms)) == count


def test_those_with_least_time_go_first() -> None:
    """The oldest, up to the last one that would be late."""
    found = must_begin_early(topics([6_000] * 500 + [1_000] * 500 + [6_500] * 100), NOW_MS, 6.0)
    assert [one.name for one in found[:100]] == [f"t{number}" for number in range(1_000, 1_100)]
    assert {one.name for one in found} == {f"t{number}" for number in (*range(500), *range(1_000, 1_100))}


@pytest.mark.parametrize(("drain_ms", "after_ms"), [(1_000, 750), (60_000, 45_000), (240_000, 220_000)])
def test_a_drain_begins_as_late_as_it_may(drain_ms: int, after_ms: int) -> None:
    """Each drain is two PUTs: a quarter of the time is spared for it, at most 20 s."""
    assert drain_age_ms(drain_ms) == after_ms


def test_many_topics_with_a_long_time_begin_in_time() -> None:
    """Two thousand drains of 20 ms need 40 s, which is more than the 20 s that one is given."""
    found = must_begin_early(topics([205_000] * 2_000, 240_000), NOW_MS, 20.0)
    assert len(found) == 2_000
    assert not must_begin_early(topics([195_000] * 2_000, 240_000), NOW_MS, 20.0)
