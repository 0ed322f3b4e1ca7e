"""A topic whose time is in the future is drained in time all the same: by how long this gateway has seen it."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from gateway.journals.future_times import SKEW_WARNED_MS, FutureTimes
from log_format.journal.topics import JournalTopic
from log_format.topic.applied_transactions import NO_TRANSACTIONS
from log_format.topic.producers import NO_PRODUCERS

NOW_MS = 1_000_000


def topic(since_ms: int | None) -> JournalTopic:
    offsets = np.zeros(1, np.int64)
    return JournalTopic(
        topic_id="a", name="t", number=1, first=1, is_open=True, settings=(0, 10_000, 1), next_offsets=offsets,
        drained=offsets, producers=NO_PRODUCERS, transactions=NO_TRANSACTIONS, undrained_since_ms=since_ms,
    )  # fmt: skip


def test_a_time_in_the_past_is_its_age() -> None:
    """Whatever was seen before."""
    ahead = FutureTimes()
    assert ahead.age_ms(topic(None), NOW_MS, 0) is None
    assert ahead.age_ms(topic(NOW_MS - 7), NOW_MS, 0) == 7


def test_a_time_in_the_future_counts_from_the_first_look(caplog: pytest.LogCaptureFixture) -> None:
    """A clock that is hours ahead is told once; a new time counts anew, and what is not asked for is forgotten."""
    ahead, hours = FutureTimes(), topic(NOW_MS + SKEW_WARNED_MS + 7_200_000)
    with caplog.at_level(logging.WARNING, "gateway.journal"):
        ages = []
        for monotonic_ms in (50, 1_050, 2_050):
            ahead.begin()
            ages.append(ahead.age_ms(hours, NOW_MS + monotonic_ms, monotonic_ms))
    assert ages == [0, 1_000, 2_000]
    assert len(caplog.messages) == 1
    ahead.begin()
    assert ahead.age_ms(topic(NOW_MS + 3), NOW_MS, 9_000) == 0
    ahead.begin()
    ahead.begin()
    assert ahead.age_ms(hours, NOW_MS, 99_000) == 0
