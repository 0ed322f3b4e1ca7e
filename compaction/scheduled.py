"""Delayed records that nobody can deliver, and nobody would collect: an object whose program died before it put its notice.

Gateways find what is due by notices only (``log_format.scheduled.due``), and delete an object by its last notice. What has none
is deleted here, a day behind the time at which its gateways would have done so:

1. Its topic's windows are decided beyond its last record first. A program that slept between the object and its notice then sees
   that its records were missed, and appends them itself, whether or not the object is still there.
2. What belongs to a topic that is gone, or was made anew since, is in nobody's way: it goes with a day's age.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from compaction.collection import Deletion, Why
from log_format import layout, limits
from log_format.clock import Clock
from log_format.ids import NewId
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.due import list_due
from log_format.scheduled.scheduled_object import open_object
from log_format.store import ObjectInfo, ObjectStore

_EVER_MS = 10**14
"""No delayed record is due later."""


class Unnoticed(NamedTuple):
    """An object without a notice."""

    topic: str
    topic_id: str
    name: str
    info: ObjectInfo


def unnoticed(store: ObjectStore, topics: Iterable[str], now_ms: int) -> list[Unnoticed]:
    """Objects of delayed records that are older than a day and have no notice. Raises ``StoreUnavailable``.

    A notice is put before the one that it replaces is deleted, so a listing of all of them shows one of each object.
    """
    found: dict[tuple[str, str, str], ObjectInfo] = {}
    for topic in topics:
        below = f"{layout.topic_root(topic)}{layout.SCHEDULED_BELOW}"
        for info in store.list(below):
            topic_id, _, rest = info.key.removeprefix(below).partition("/")
            if rest.startswith("objects/") and now_ms - info.modified_at_ms > limits.ORPHAN_GRACE_MS:
                found[topic, topic_id, rest.removeprefix("objects/")] = info
    if found:
        for due in list_due(store, _EVER_MS):
            found.pop((due.topic, due.topic_id, due.name), None)
    return [Unnoticed(*key, info) for key, info in found.items()]


def plan_scheduled(
    store: ObjectStore,
    found: Collection[Unnoticed],
    topic_id: str | None,
    clock: Clock,
    new_id: NewId,
    *,
    now_ms: int,
    is_dry_run: bool,
) -> list[Deletion]:
    """Those of one topic to delete. ``topic_id``: the topic's, None where it is gone. ``now_ms``: by a clock that is not ahead of
    the store's.

    Raises ``StoreUnavailable``, ``CorruptData``, ``OutcomeUnknown``.
    """
    deletions = []
    for each in found:
        if now_ms - each.info.modified_at_ms <= limits.ORPHAN_GRACE_MS:
            continue
        if each.topic_id == topic_id and not _is_over(store, each, clock, new_id, now_ms=now_ms, is_dry_run=is_dry_run):
            continue
        deletions.append(Deletion(key=each.info.key, size_bytes=each.info.size_bytes, why=Why.UNNOTICED))
    return deletions


def _is_over(store: ObjectStore, one: Unnoticed, clock: Clock, new_id: NewId, *, now_ms: int, is_dry_run: bool) -> bool:
    """Whether none of its records is ever delivered from it. Decides that, but for a dry run."""
    opened = open_object(store, one.info.key)
    if opened is None:
        return False
    last_due = opened.index.last_due
    if now_ms - last_due - opened.index.kept_ms <= limits.ORPHAN_GRACE_MS:
        return False
    calendar = Calendar(store, one.topic, one.topic_id, clock, new_id)
    if not is_dry_run and calendar.look().until_ms < last_due:
        if calendar.newest.closing_ms < last_due:
            calendar.plan(list_due(store, calendar.newest.closing_ms), last_due)
        calendar.decided(last_due)
    return True
