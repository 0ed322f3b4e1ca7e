"""Deleting: every reason is told first, many requests are under way at once, order holds from wave to wave."""

from __future__ import annotations

import threading

import pytest

from compaction.collection import Deletion, DeletionReason
from compaction.deletions import delete_all
from compaction.report import Totals
from log_format.errors import StoreUnavailable
from log_format.stores.memory import MemoryStore
from tests.support.collected_events import CollectedEvents

MEET_SECONDS_MAX = 60
KEYS = [f"k{number:02d}" for number in range(8)]
DELETIONS = [Deletion(key=key, size_bytes=3, why=DeletionReason.REMOVED) for key in KEYS]


class Meeting(MemoryStore):
    """A delete ends when as many as ``parties`` are under way: one after the other they would never end."""

    def __init__(self, parties: int) -> None:
        super().__init__()
        self.parties = threading.Barrier(parties)
        self.told_before: list[int] = []
        self.report = CollectedEvents()
        self.order: list[str] = []

    def delete(self, key: str) -> None:
        self.told_before.append(len(self.report.events))
        self.parties.wait(MEET_SECONDS_MAX)
        self.order.append(key)
        if key == "k05":
            raise StoreUnavailable(key, "it is planned so", may_have_happened=False)
        super().delete(key)


def test_a_wave_goes_side_by_side_and_the_next_one_waits() -> None:
    """All reasons are told before the first; the oldest wave is gone before the next begins; a failure ends it there."""
    store, totals = Meeting(4), Totals()
    for key in KEYS:
        store.put(key, b"abc")
    with pytest.raises(StoreUnavailable):
        delete_all(store, DELETIONS, report=store.report, totals=totals, at_once=4, is_dry_run=False)
    assert sorted(store.order[:4]) == KEYS[:4]
    assert set(store.told_before) == {8}
    assert [fields["why"] for _, fields in store.report.events] == [DeletionReason.REMOVED.value] * 8
    assert [info.key for info in store.list("")] == ["k05"]
    assert (totals.deleted_objects, totals.deleted_bytes) == (5, 15)


def test_a_dry_run_only_tells() -> None:
    """``would delete`` for each, and everything stays."""
    store, report = MemoryStore(), CollectedEvents()
    store.put("k00", b"abc")
    delete_all(store, DELETIONS[:1], report=report, totals=Totals(), at_once=4, is_dry_run=True)
    assert [event for event, _ in report.events] == ["would delete"]
    assert [info.key for info in store.list("")] == ["k00"]
