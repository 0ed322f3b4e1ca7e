"""One listing of what is due: it says up to when it misses nothing of a topic."""

from __future__ import annotations

import pytest

from log_format.scheduled.due import MINUTE_MS, DueNotice, list_due_now, put_notice
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock

TOPICS = ("a", "a-b", "a.b", "ab", "b")
"""In keys ``a-b`` and ``a.b`` stand before ``a``, since a slash follows the name."""


def stored(now_ms: int) -> tuple[MemoryStore, list[DueNotice]]:
    """Three minutes of notices of each topic, several of them in one millisecond."""
    store, every = MemoryStore(), []
    for minutes in range(3):
        for topic in TOPICS:
            for number in range(4):
                due = DueNotice(now_ms - minutes * MINUTE_MS - number // 2, topic, "id", f"object-{minutes}-{number}")
                every.append(due)
                put_notice(store, due)
    return store, every


@pytest.mark.parametrize("notices_max", range(1, 70, 4))
def test_a_listing_knows_what_it_lacks(notices_max: int) -> None:
    """Wherever it is cut: up to ``complete_ms`` it has every notice of a topic, and it has more than nothing."""
    clock = ManualClock()
    store, every = stored(clock.now_ms())
    listing = list_due_now(store, clock, ahead_ms=1_000, notices_max=notices_max)
    found = {due for some in listing.topics.values() for due in some}
    assert min(notices_max, len(every)) <= len(found) <= notices_max + 1
    for topic in TOPICS:
        complete_ms = listing.complete_ms(topic)
        assert complete_ms <= listing.until_ms
        assert {due for due in every if due.topic == topic and due.due_ms <= complete_ms} <= found
    assert (listing.left_out is None) == (len(found) == len(every))


def test_what_is_due_soon_is_said_and_not_taken() -> None:
    """The first time behind the present one is known; its notice is none that is due."""
    clock, store = ManualClock(), MemoryStore()
    for later_ms in (300, 200, 5_000):
        put_notice(store, DueNotice(clock.now_ms() + later_ms, "t", "id", f"n-{later_ms}"))
    listing = list_due_now(store, clock, ahead_ms=1_000, notices_max=10)
    assert (listing.topics, listing.next_ms) == ({}, clock.now_ms() + 200)
