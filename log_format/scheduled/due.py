"""Notices of when objects of delayed records are due: empty objects, listed by minute over all topics.

``system/scheduled/<minute, 10 digits>/<topic>/<due, 15 digits>~<topic id>~<name>``: the object ``name`` has a record due then,
and no earlier one that is not published yet. Gateways find everything due by one listing, however much is not due yet: the
listing ends with the present minute.

A notice may be late, duplicate or left over, but never missing. A publisher puts the next notice before it deletes the last.
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


class DueNotice(NamedTuple):
    """A notice that an object has a record due at ``due_ms``."""

    due_ms: int
    topic: str
    topic_id: str
    name: str

    @property
    def key(self) -> str:
        """Key of the notice."""
        minute = self.due_ms // MINUTE_MS
        return f"{SCHEDULED}{minute:010d}/{self.topic}/{self.due_ms:015d}~{self.topic_id}~{self.name}"


def put_notice(store: ObjectStore, due: DueNotice) -> None:
    """Put the notice. Blocks. Raises ``StoreUnavailable``."""
    store.put(due.key, b"")


def list_notices(store: ObjectStore, until_ms: int) -> Iterator[DueNotice]:
    """Yield the notices of all topics up to the minute of ``until_ms``, by minute. Blocks. Raises ``StoreUnavailable``."""
    last = f"{SCHEDULED}{until_ms // MINUTE_MS:010d}/~"
    for info in store.list(SCHEDULED):
        if info.key > last:
            return
        found = _KEY.fullmatch(info.key)
        if found is not None:
            yield DueNotice(int(found.group(3)), found.group(2), found.group(4), found.group(5))


@dataclass(slots=True)
class Listing:
    """A listing of what is due by ``until_ms``. ``began_ms``: monotonic time. ``next_ms``: the first later due time seen."""

    began_ms: int
    until_ms: int
    topics: dict[tuple[str, str], list[DueNotice]] = field(default_factory=dict)
    """(topic, topic id) -> its notices."""
    next_ms: int | None = None
    left_out: DueNotice | None = None
    """First notice that the listing lacks because it was cut off; None if it is complete."""

    def complete_ms(self, topic: str) -> int:
        """Return the due time up to which no notice of the topic is missing."""
        cut = self.left_out
        if cut is None:
            return self.until_ms
        if topic == cut.topic:
            return cut.due_ms - 1
        minute_ms = cut.due_ms // MINUTE_MS * MINUTE_MS
        is_before = f"{topic}/" < f"{cut.topic}/"  # compared like keys: a name may end with what sorts before a slash
        return min(self.until_ms, minute_ms + MINUTE_MS - 1) if is_before else minute_ms - 1


def list_due_now(store: ObjectStore, clock: Clock, *, ahead_ms: int, notices_max: int) -> Listing:
    """List what is due now, and when something is due next within ``ahead_ms``. Blocks. Raises ``StoreUnavailable``.

    The listing is cut off after ``notices_max``, but never among a topic's notices of the same millisecond, since a window needs
    all of them.
    """
    listing = Listing(clock.monotonic_ms(), clock.now_ms())
    count, last = 0, ("", 0)
    for due in list_notices(store, listing.until_ms + ahead_ms):
        if due.due_ms > listing.until_ms:
            listing.next_ms = due.due_ms if listing.next_ms is None else min(listing.next_ms, due.due_ms)
            continue
        if count >= notices_max and last != (due.topic, due.due_ms):
            listing.left_out, listing.next_ms = due, listing.until_ms
            break
        listing.topics.setdefault((due.topic, due.topic_id), []).append(due)
        count, last = count + 1, (due.topic, due.due_ms)
    return listing
