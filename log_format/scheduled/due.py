"""When objects of delayed records are due: empty objects, listed by minute over all topics.

``system/scheduled/<minute, 10 digits>/<topic>/<due, 15 digits>~<topic id>~<name>``: the object ``name`` has a record that is due
then, and none before it that was not published. Gateways find what is due by one listing, whatever waits: it ends with the
minute at hand.

A notice may be late, double or left over, never missing. A publisher puts the next one before it deletes the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from log_format.clock import Clock
from log_format.layout import SCHEDULED
from log_format.store import ObjectStore

MINUTE_MS: Final = 60_000
_KEY: Final = re.compile(rf"{SCHEDULED}([0-9]{{10}})/([A-Za-z0-9._-]+)/([0-9]{{15}})~([A-Za-z0-9-]+)~([A-Za-z0-9-]+)")


class Due(NamedTuple):
    """An object has a record that is due at ``due_ms``."""

    due_ms: int
    topic: str
    topic_id: str
    name: str

    @property
    def key(self) -> str:
        """The notice's key."""
        minute = self.due_ms // MINUTE_MS
        return f"{SCHEDULED}{minute:010d}/{self.topic}/{self.due_ms:015d}~{self.topic_id}~{self.name}"


def put_due(store: ObjectStore, due: Due) -> None:
    """Say when the object is due. Blocks. Raises ``StoreUnavailable``."""
    store.put(due.key, b"")


def list_due(store: ObjectStore, until_ms: int) -> Iterator[Due]:
    """The notices of all topics up to the minute of ``until_ms``, by minute. Blocks. Raises ``StoreUnavailable``."""
    last = f"{SCHEDULED}{until_ms // MINUTE_MS:010d}/~"
    for info in store.list(SCHEDULED):
        if info.key > last:
            return
        found = _KEY.fullmatch(info.key)
        if found is not None:
            yield Due(int(found.group(3)), found.group(2), found.group(4), found.group(5))


@dataclass(slots=True)
class Listing:
    """What one listing showed as due by ``until_ms``. ``began_ms``: monotonic. ``next_ms``: the first due time seen behind it."""

    began_ms: int
    until_ms: int
    topics: dict[tuple[str, str], list[Due]] = field(default_factory=dict)
    """By topic and its id."""
    next_ms: int | None = None
    left_out: Due | None = None
    """Where it was cut: the first notice that it lacks."""

    def complete_ms(self, topic: str) -> int:
        """The due time up to which no notice of the topic is missing."""
        cut = self.left_out
        if cut is None:
            return self.until_ms
        if topic == cut.topic:
            return cut.due_ms - 1
        minute_ms = cut.due_ms // MINUTE_MS * MINUTE_MS
        is_before = f"{topic}/" < f"{cut.topic}/"  # as in keys: a name may end with what sorts before a slash
        return min(self.until_ms, minute_ms + MINUTE_MS - 1) if is_before else minute_ms - 1


def due_now(store: ObjectStore, clock: Clock, *, ahead_ms: int, notices_max: int) -> Listing:
    """What is due now, and when something is next within ``ahead_ms``. Blocks. Raises ``StoreUnavailable``.

    It is cut behind ``notices_max``, never within a topic's notices of one millisecond: a window has all of them.
    """
    listing = Listing(clock.monotonic_ms(), clock.now_ms())
    count, last = 0, ("", 0)
    for due in list_due(store, listing.until_ms + ahead_ms):
        if due.due_ms > listing.until_ms:
            listing.next_ms = due.due_ms if listing.next_ms is None else min(listing.next_ms, due.due_ms)
            continue
        if count >= notices_max and last != (due.topic, due.due_ms):
            listing.left_out, listing.next_ms = due, listing.until_ms
            break
        listing.topics.setdefault((due.topic, due.topic_id), []).append(due)
        count, last = count + 1, (due.topic, due.due_ms)
    return listing
