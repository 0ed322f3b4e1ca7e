"""Collecting objects of delayed records without a notice, since their program died before it put the notice.

Gateways find what is due only by notices (``log_format.scheduled.due``), and delete an object by its last notice. An object
without one is deleted here, a day after the time at which gateways would have done so:

1. First the windows of its topic are decided up to its last record. A program that slept between object and notice then sees that
   its records were missed, and appends them itself, whether the object is still there or not.
2. An object of a topic that is deleted, or was re-created since then, is deleted at the age of a day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from compaction.collection import Deletion, DeletionReason
from log_format import layout, limits
from log_format.clock import Clock
from log_format.ids import NewId
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.due import list_notices
from log_format.scheduled.scheduled_object import open_object
from log_format.store import ObjectInfo, ObjectStore

_EVER_MS = 10**14
"""Time after which no delayed record is due."""


class ObjectWithoutNotice(NamedTuple):
    """An object without a notice."""

    topic: str
    topic_id: str
    name: str
    info: ObjectInfo


def find_without_notice(store: ObjectStore, topics: Iterable[str], now_ms: int) -> list[ObjectWithoutNotice]:
    """Return objects of delayed records that are older than a day and have no notice. Raises ``StoreUnavailable``.

    A notice is put before the one that it replaces is deleted, so a listing of all notices shows one for each object.
    """
    found: dict[tuple[str, str, str], ObjectInfo] = {}
    for topic in topics:
        below = f"{layout.topic_root(topic)}{layout.SCHEDULED_BELOW}"
        for info in store.list(below):
            topic_id, _, rest = info.key.removeprefix(below).partition("/")
            if rest.startswith("objects/") and now_ms - info.modified_at_ms > limits.ORPHAN_GRACE_MS:
                found[topic, topic_id, rest.removeprefix("objects/")] = info
    if found:
        for due in list_notices(store, _EVER_MS):
            found.pop((due.topic, due.topic_id, due.name), None)
    return [ObjectWithoutNotice(*key, info) for key, info in found.items()]


def plan_scheduled(
    store: ObjectStore,
    found: Collection[ObjectWithoutNotice],
    topic_id: str | None,
    clock: Clock,
    new_id: NewId,
    *,
    now_ms: int,
    is_dry_run: bool,
) -> list[Deletion]:
    """Return the objects of one topic to delete.

    Args:
        store: where the objects are.
        found: the topic's objects without a notice.
        topic_id: present incarnation of the topic; None if it is deleted.
        clock: source of time.
        new_id: source of unique ids.
        now_ms: by a clock that is not ahead of the store's.
        is_dry_run: put no window.

    Raises ``StoreUnavailable``, ``CorruptData``, ``OutcomeUnknown``.
    """
    deletions = []
    for each in found:
        if now_ms - each.info.modified_at_ms <= limits.ORPHAN_GRACE_MS:
            continue
        if each.topic_id == topic_id and not _is_over(store, each, clock, new_id, now_ms=now_ms, is_dry_run=is_dry_run):
            continue
        deletions.append(Deletion(key=each.info.key, size_bytes=each.info.size_bytes, why=DeletionReason.UNNOTICED))
    return deletions


def _is_over(
    store: ObjectStore, one: ObjectWithoutNotice, clock: Clock, new_id: NewId, *, now_ms: int, is_dry_run: bool
) -> bool:
    """Return whether none of the object's records is ever delivered from it. Ensures that, except in a dry run."""
    opened = open_object(store, one.info.key)
    if opened is None:
        return False
    last_due = opened.index.last_due
    if now_ms - last_due - opened.index.kept_ms <= limits.ORPHAN_GRACE_MS:
        return False
    calendar = Calendar(store, one.topic, one.topic_id, clock, new_id)
    if not is_dry_run and calendar.look().until_ms < last_due:
        if calendar.newest.closing_ms < last_due:
            calendar.plan(list_notices(store, calendar.newest.closing_ms), last_due)
        calendar.plan_until(last_due)
    return True
