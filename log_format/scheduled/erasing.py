"""Erasing delayed records that wait: those in objects that were put before a request to erase.

The topic's log orders them, and no clock: an object names the version that its gateway looked up before the put. A request that
was committed up to that version came first; a later one means the object's records. So a record that was acknowledged before
a request is meant, and one that was sent after its answer is not.

1. A record that is meant is cancelled, like by its sender. Then the object is put again in its place, with an empty row. Rows
   keep their numbers, and blocks the sizes by which publications are cut.
2. A record that a window has taken already may just be published. Publishers leave out what those requests mean that they know
   of, and a topic refuses a publication that was made without knowing of one (``log_format.topic.append``). So nothing of it
   comes into the topic after the request. Its row is emptied half an hour later, when no publisher needs it any more.

Blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from log_format import limits
from log_format.records.erasing import Rows
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.lookup import AlreadyDelivered, UnknownScheduled, cancel, scheduled_id
from log_format.scheduled.scheduled_object import ScheduledObject, due_times, encode_emptied, open_object
from log_format.store import ObjectStore
from log_format.topic.erasures import Erasure, Judge, find_meant


class ErasedDelayed(NamedTuple):
    """What was erased: number of records. ``is_left``: whether objects still have some."""

    record_count: int
    is_left: bool


def erase_delayed(
    calendar: Calendar, erasures: Sequence[Erasure], secret: bytes, judge: Judge | None = None
) -> ErasedDelayed:
    """Cancel and empty the waiting records of a topic that these requests mean. ``judge`` as for ``find_meant``.

    Raises ``StoreUnavailable``, ``CorruptData``, ``OutcomeUnknown``. Does no harm when repeated.
    """
    record_count, is_left = 0, False
    prefix = calendar.object_key("")
    for info in calendar.store.list(prefix):
        one = open_object(calendar.store, info.key)
        if one is None or not any(_is_before(one, erasure) for erasure in erasures):
            continue
        emptied: list[tuple[pa.Table, Rows]] = []
        for block in one.index.blocks:
            rows = one.read(calendar.store, block)
            meant = meant_rows(one, rows, erasures, secret, judge)
            for row in np.flatnonzero(meant):
                name = scheduled_id(info.key.removeprefix(prefix), block.first_row + int(row))
                if _may_be_needed(calendar, name, int(due_times(rows)[row])):
                    meant[row], is_left = False, True
            emptied.append((rows, meant))
        count = sum(int(meant.sum()) for _, meant in emptied)
        if count:
            calendar.store.put(info.key, encode_emptied(one, emptied))
            record_count += count
    return ErasedDelayed(record_count, is_left)


def count_meant(
    store: ObjectStore, key: str, erasures: Sequence[Erasure], secret: bytes, judge: Judge | None = None
) -> int:
    """Return how many records of an object these requests mean; 0, if it is gone. ``judge`` as for ``find_meant``.

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    one = open_object(store, key)
    if one is None or not any(_is_before(one, erasure) for erasure in erasures):
        return 0
    return sum(int(meant_rows(one, one.read(store, each), erasures, secret, judge).sum()) for each in one.index.blocks)


def meant_rows(
    one: ScheduledObject, rows: pa.Table, erasures: Sequence[Erasure], secret: bytes, judge: Judge | None = None
) -> Rows:
    """Return which rows of an object's block the requests mean that came after the object. ``judge`` as for ``find_meant``."""
    return find_meant(rows, [erasure for erasure in erasures if _is_before(one, erasure)], secret, judge)


def _is_before(one: ScheduledObject, erasure: Erasure) -> bool:
    known_version = one.index.known_version
    if known_version is None or erasure.version is None:  # of an earlier release, or of a restored copy: by the clocks
        return one.index.made_ms <= erasure.requested_ms
    return known_version < erasure.version


def _may_be_needed(calendar: Calendar, name: str, due_ms: int) -> bool:
    """Cancel the record, if no window covers it; return whether a publisher may still have to read its row."""
    if calendar.look().until_ms < due_ms:
        try:
            cancel(calendar, name)
        except UnknownScheduled:
            return False  # cancelled before
        except AlreadyDelivered:
            pass
        else:
            return False
    return calendar.clock.now_ms() - due_ms < limits.WINDOWS_KEPT_MS
