"""Windows are planned from all that is due, whatever the clocks of other gateways say and however much there is."""

from __future__ import annotations

from itertools import count

from log_format.scheduled.calendar import Calendar
from log_format.scheduled.cancellation import Cancellation, list_cancellations
from log_format.scheduled.due import DueNotice, list_due_now, list_notices, put_notice
from log_format.stores.memory import MemoryStore
from tests.support.clocks import EPOCH_MS, ManualClock


class Ahead(ManualClock):
    """Half a second ahead of the others."""

    def now_ms(self) -> int:
        return super().now_ms() + 500


def calendar(store: MemoryStore, clock: ManualClock) -> Calendar:
    numbers = count()
    return Calendar(store, "t", "id", clock, lambda: f"{type(clock).__name__}-{next(numbers)}")


def filed(store: MemoryStore, due_ms: int, name: str) -> None:
    put_notice(store, DueNotice(due_ms, "t", "id", name))


def planned(one: Calendar, clock: ManualClock, notices_max: int = 100) -> None:
    """One round of a gateway: it looks, lists, and plans."""
    one.look()
    clock.pass_ms(1)
    listing = list_due_now(one.store, clock, ahead_ms=1_000, notices_max=notices_max)
    assert one.is_recent_enough(listing.began_ms)
    one.plan_from(listing)


def test_a_window_that_a_faster_clock_closed_has_what_is_due_in_it() -> None:
    """A gateway whose clock is behind plans up to the other one's time, with what its own listing does not call due yet."""
    store, faster, slower = MemoryStore(), Ahead(), ManualClock()
    ahead, behind = calendar(store, faster), calendar(store, slower)
    planned(ahead, faster)
    filed(store, EPOCH_MS + 400, "between")
    planned(behind, slower)
    (covering,) = [window for _, window in behind.windows_behind(0) if window.covers(EPOCH_MS + 400)]
    assert covering.objects == ["between"]


def test_all_that_is_due_is_in_a_window_where_listings_are_cut() -> None:
    """More is due than one listing takes: each object is in the window of its time, and in no other."""
    store, clock = MemoryStore(), ManualClock()
    one = calendar(store, clock)
    due = {f"object-{number:02d}": EPOCH_MS - 100 + number // 3 for number in range(20)}
    for name, due_ms in due.items():
        filed(store, due_ms, name)
    for _ in range(12):
        planned(one, clock, notices_max=4)
        for notice in list(list_notices(store, EPOCH_MS)):
            if notice.due_ms <= one.newest.until_ms:  # what a publisher does behind a window
                store.delete(notice.key)
    windows = [window for _, window in one.windows_behind(0)]
    assert sorted(name for window in windows for name in window.objects) == sorted(due)
    assert all(window.covers(due[name]) for window in windows for name in window.objects)


def test_a_gateway_puts_no_window_that_adds_nothing() -> None:
    """Where other topics fill the listing, and nothing more of this one is known to be due, no window is put."""
    store, clock = MemoryStore(), ManualClock()
    one = calendar(store, clock)
    filed(store, EPOCH_MS - 60_000, "object")
    for number in range(5):
        put_notice(store, DueNotice(EPOCH_MS - 120_000, "other", "id", f"n-{number}"))
    for _ in range(4):
        planned(one, clock, notices_max=4)
    number = one.number
    planned(one, clock, notices_max=4)
    assert one.number == number


def test_objects_with_names_of_other_digits_are_neither_windows_nor_cancellations() -> None:
    """A superscript two is a digit, and no number: such an object beside a topic's calendar stopped its delayed records."""
    store, clock = MemoryStore(), ManualClock()
    one = calendar(store, clock)
    wanted = Cancellation(EPOCH_MS, "object", 3)
    store.put(wanted.key(one.root), b"")
    for stray in (
        "windows/" + "\u00b2" * 20 + ".json",
        "cancelled/\u00b2~object~1",
        f"cancelled/{EPOCH_MS:015d}~object~\u00b2",
    ):
        store.put(f"{one.root}{stray}", b"")
    planned(one, clock)
    assert one.number == 0
    assert list(list_cancellations(store, one.root, -1, EPOCH_MS + 1)) == [wanted]
