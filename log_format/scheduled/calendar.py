"""The decision which delayed records of a topic are published: numbered windows, each put once, so that all gateways agree.

A window takes the records that are due in ``(after_ms, until_ms]`` from exactly the objects that it names, except the rows that
it skips as cancelled. It also *closes* the next window: ``closing_ms`` will be the next window's ``until_ms``.

1. A window's objects and cancelled rows are listed after the window before it was put. So if a process puts an object or a
   cancellation, and then sees a newest window whose ``closing_ms`` is below the record's time, the object or cancellation is
   certain to count.
2. If ``closing_ms`` is not below, the window that covers the time says what happened: it names the object, or not; it skips the
   row, or not. Any process may put that window, and the first one counts.
3. ``closing_ms`` is never ahead of the clock of the gateway that puts the window, so nothing is published early.
4. Windows older than ``WINDOWS_KEPT_MS`` may be deleted, except the newest. So a put whose answer came more than
   ``WINDOW_PUT_MS_MAX`` after the look before it does not count.

Blocks. For one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from log_format import limits
from log_format.clock import Clock
from log_format.errors import (
    CorruptData,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
    StoreUnavailable,
)
from log_format.ids import NewId
from log_format.layout import scheduled_root
from log_format.scheduled.cancellation import list_cancellations
from log_format.scheduled.due import DueNotice, Listing, list_notices
from log_format.store import ObjectStore

LISTED_AGAIN_MS: Final = 30_000
"""Age in ms from which the known newest window may have been deleted with its successors, so that windows are listed again."""
FRESH_MS: Final = 5_000
"""Age in ms from which the newest window is looked for again before another one is planned after it."""
_WINDOW_BYTES_MAX: Final = 64 * 1024 * 1024
_ROUNDS_MAX: Final = 100
NONE: Final = -1


class Window(msgspec.Struct, frozen=True):
    """A window. ``by`` is unique, so that a process recognizes its own put."""

    after_ms: int
    until_ms: int
    closing_ms: int
    by: str
    objects: list[str] = []
    skipped: dict[str, list[int]] = {}

    def covers(self, due_ms: int) -> bool:
        """Return whether a record due at that time is either in this window or in none."""
        return self.after_ms < due_ms <= self.until_ms


NO_WINDOW: Final = Window(after_ms=-1, until_ms=-1, closing_ms=-1, by="")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Window).decode


@dataclass(slots=True)
class Calendar:
    """The windows of one incarnation of a topic."""

    store: ObjectStore
    topic: str
    topic_id: str
    clock: Clock
    new_id: NewId
    number: int = NONE
    newest: Window = NO_WINDOW
    published_number: int = NONE
    """Number of a window up to which the caller has seen all windows published."""
    _looked_ms: int | None = None
    _seen_ms: int = 0
    _cleaned_ms: int = field(default=0)

    def is_recent_enough(self, listed_ms: int) -> bool:
        """Return whether a listing that began at ``listed_ms`` (monotonic clock) is usable for planning: after the newest
        window's put."""
        looked_ms, seen_ms = self._looked_ms, self._seen_ms
        return looked_ms is not None and seen_ms < listed_ms <= looked_ms + FRESH_MS

    @property
    def root(self) -> str:
        """Key prefix of everything that belongs to these delayed records."""
        return scheduled_root(self.topic, self.topic_id)

    def object_key(self, name: str) -> str:
        """Return the key of an object."""
        return f"{self.root}objects/{name}"

    def look(self) -> Window:
        """Find and return the newest window. Raises ``StoreUnavailable``, ``CorruptData``."""
        began_ms = self.clock.monotonic_ms()
        if self._looked_ms is None or began_ms - self._looked_ms > LISTED_AGAIN_MS:
            self._find_newest()
        while (following := self.window(self.number + 1)) is not None:
            self.number, self.newest = self.number + 1, following
        self._looked_ms, self._seen_ms = began_ms, self.clock.monotonic_ms()
        return self.newest

    def window(self, number: int) -> Window | None:
        """Return a window; None if it does not exist, or not any more. Raises the same errors as ``look``."""
        if number == self.number and number != NONE:
            return self.newest
        key = self._key(number)
        try:
            return _decode(self.store.get(key, bytes_max=_WINDOW_BYTES_MAX))
        except ObjectMissing:
            return None
        except ValueError as problem:
            raise CorruptData(f"{key} is no window: {problem}.", object=key) from problem

    def plan(self, listed: Iterable[DueNotice], now_ms: int) -> bool:
        """Put the next window, which the newest one closes. Return False if another process put it first.

        ``listed``: notices that were listed after ``look`` found the newest window.
        """
        after_ms, until_ms = self.newest.until_ms, self.newest.closing_ms
        names = sorted({due.name for due in listed if due.due_ms <= until_ms and self._is_mine(due)})
        skipped: dict[str, list[int]] = {}
        for one in list_cancellations(self.store, self.root, after_ms, until_ms):
            skipped.setdefault(one.name, []).append(one.row)
        members = set(names)
        kept = {name: rows for name, rows in skipped.items() if name in members}
        return self._put(after_ms, until_ms, now_ms, names, kept)

    def plan_from(self, listing: Listing) -> bool:
        """Put the next window, like ``plan``, from a listing of all topics, for which ``is_recent_enough`` must hold.

        The gateway that put the newest window may have a clock that is ahead, and a listing may be cut off. The listing then
        lacks notices up to the closing time, and they are listed again. Records after a cut are left to later windows.
        """
        notices = listing.topics.get((self.topic, self.topic_id), [])
        complete_ms, closed_ms = listing.complete_ms(self.topic), self.newest.closing_ms
        closing_ms = self.clock.now_ms() if listing.left_out is None else complete_ms
        if max(closing_ms, closed_ms) == self.newest.until_ms:
            return False  # everything known to be due is in a window
        return self.plan(notices if complete_ms >= closed_ms else list_notices(self.store, closed_ms), closing_ms)

    def plan_until(self, until_ms: int) -> Window:
        """Return the newest window, after windows cover everything up to ``until_ms``, which must be closed.

        Raises ``StoreUnavailable``, ``CorruptData``, ``OutcomeUnknown``.
        """
        for _ in range(_ROUNDS_MAX):
            newest = self.look()
            if newest.until_ms >= until_ms:
                return newest
            self.plan(list_notices(self.store, newest.closing_ms), newest.closing_ms)
        raise OutcomeUnknown(f"Other gateways keep publishing to {self.topic!r}.")

    def windows_from(self, due_ms: int) -> list[Window]:
        """Return the windows that cover ``due_ms`` and later times, oldest first, up to the newest that was seen.

        Raises ``OutcomeUnknown`` if the oldest of them is deleted; and the same errors as ``look``.
        """
        found: list[Window] = []
        number, window = self.number, self.newest
        while window.until_ms >= due_ms:
            found.append(window)
            if window.after_ms < due_ms:
                return found[::-1]
            number -= 1
            before = self.window(number) if number > NONE else NO_WINDOW
            if before is None:
                raise OutcomeUnknown(f"It is no longer known which delayed records of {self.topic!r} were published.")
            window = before
        return found[::-1]

    def windows_behind(self, number: int) -> list[tuple[int, Window]]:
        """Return the windows from ``number`` on, oldest first; deleted ones were published. Raises the same errors as
        ``look``."""
        found: list[tuple[int, Window]] = []
        for each in range(self.number, max(number, 0) - 1, -1):
            window = self.window(each)
            if window is None:
                break
            found.append((each, window))
        return found[::-1]

    def clean(self) -> None:
        """Delete windows and cancellations older than ``WINDOWS_KEPT_MS``. All windows must be published.

        Raises ``StoreUnavailable``.
        """
        now_ms = self.clock.now_ms()
        if now_ms - self._cleaned_ms < limits.WINDOWS_KEPT_MS // 10:
            return
        self._cleaned_ms = now_ms
        for one in list_cancellations(self.store, self.root, -1, self.newest.until_ms - limits.WINDOWS_KEPT_MS):
            self.store.delete(one.key(self.root))
        for info in self.store.list(f"{self.root}windows/"):
            number = _number(info.key)
            if number is None or number >= self.number or now_ms - info.modified_at_ms <= limits.WINDOWS_KEPT_MS:
                return
            self.store.delete(info.key)

    def _is_mine(self, due: DueNotice) -> bool:
        return due.topic == self.topic and due.topic_id == self.topic_id

    def _key(self, number: int) -> str:
        return f"{self.root}windows/{number:020d}.json"

    def _find_newest(self) -> None:
        newest = NONE
        for info in self.store.list(f"{self.root}windows/"):
            newest = max(newest, NONE if (number := _number(info.key)) is None else number)
        if newest == NONE:
            self.number, self.newest = NONE, NO_WINDOW
            return
        window = self.window(newest)
        if window is None:
            raise CorruptData(f"The newest window of {self.topic!r} is gone.", object=self._key(newest))
        self.number, self.newest = newest, window

    def _put(
        self, after_ms: int, until_ms: int, now_ms: int, objects: Iterable[str], skipped: dict[str, list[int]]
    ) -> bool:
        window = Window(
            after_ms=after_ms,
            until_ms=until_ms,
            closing_ms=max(until_ms, now_ms),
            by=self.new_id(),
            objects=list(objects),
            skipped=skipped,
        )
        looked_ms, number = self._looked_ms, self.number + 1
        assert looked_ms is not None, "look first"
        began_ms = self.clock.monotonic_ms()
        try:
            self.store.put_if_absent(self._key(number), _encode(window))
        except ObjectExists:
            self._looked_ms = None if self.clock.monotonic_ms() - looked_ms > limits.WINDOW_PUT_MS_MAX else looked_ms
            return self.look().by == window.by
        except StoreUnavailable as problem:
            if not problem.may_have_happened:
                raise
            return self.look().by == window.by
        if self.clock.monotonic_ms() - looked_ms > limits.WINDOW_PUT_MS_MAX:
            self._looked_ms = None
            self.look()
            return False
        self.number, self.newest = number, window
        self._looked_ms, self._seen_ms = began_ms, self.clock.monotonic_ms()
        return True


def _number(key: str) -> int | None:
    text = key.rpartition("/")[2].removesuffix(".json")
    return int(text) if len(text) == 20 and text.isascii() and text.isdigit() else None
