"""Delayed records by id, and lists of them. An id is ``<object's name>-<row, 10 digits>``: the record's place.

Blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from log_format import limits
from log_format.errors import (
    ErrorCode,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
    RequestRefused,
    StoreUnavailable,
)
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.cancellation import Cancellation, list_cancellations
from log_format.scheduled.record_outcome import RecordOutcome, record_outcomes
from log_format.scheduled.scheduled_object import ScheduledObject, due_times, open_object

_ID: Final = re.compile(r"([A-Za-z0-9-]{1,64})-([0-9]{10})")
_CANCELLED_BYTES_MAX: Final = 256


class UnknownScheduled(RequestRefused, code=ErrorCode.UNKNOWN_SCHEDULED):
    """Error: there is no such delayed record. It was never sent, or is delivered or cancelled."""

    def __init__(self, topic: str, scheduled_id: str) -> None:
        super().__init__(f"Topic {topic!r} has no delayed record {scheduled_id[:100]!r}.", topic=topic)


class AlreadyDelivered(RequestRefused, code=ErrorCode.ALREADY_DELIVERED):
    """Error: the delayed record is in the topic, or about to be."""

    def __init__(self, topic: str, scheduled_id: str) -> None:
        super().__init__(f"Delayed record {scheduled_id[:100]!r} of topic {topic!r} is already delivered.", topic=topic)


@dataclass(frozen=True, slots=True)
class WaitingRecords:
    """Delayed records of one object: ``rows`` has ``scheduled_object.SCHEMA``."""

    name: str
    numbers: list[int]
    rows: pa.Table

    @property
    def ids(self) -> list[str]:
        """Ids of the records."""
        return [scheduled_id(self.name, number) for number in self.numbers]


def scheduled_id(name: str, row: int) -> str:
    """Return the id of a record."""
    return f"{name}-{row:010d}"


def find(calendar: Calendar, wanted: str) -> WaitingRecords:
    """Return the waiting record. Raises ``UnknownScheduled``, ``StoreUnavailable``, ``CorruptData``."""
    name, row, record, due_ms = _row(calendar, wanted)
    newest = calendar.look()
    if due_ms <= newest.until_ms or _is_cancelled(calendar, Cancellation(due_ms, name, row)):
        raise UnknownScheduled(calendar.topic, wanted)
    return WaitingRecords(name, [row], record)


def cancel(calendar: Calendar, wanted: str) -> None:
    """Cancel the record. Raises ``AlreadyDelivered``, ``UnknownScheduled``, ``OutcomeUnknown``, and the same errors
    as ``find``."""
    name, row, _, due_ms = _row(calendar, wanted)
    one = Cancellation(due_ms, name, row)
    newest = calendar.look()
    is_new = newest.until_ms < due_ms and _put_cancelled(calendar, one)
    try:
        _check_cancelled(calendar, wanted, one, is_new=is_new)
    except StoreUnavailable as problem:
        if not is_new:
            raise
        raise _unknown(problem) from problem


def _put_cancelled(calendar: Calendar, one: Cancellation) -> bool:
    """Put the cancellation; return whether the one in the store is this call's.

    Its content is unique, since the network may send a put twice.
    """
    key, own = one.key(calendar.root), calendar.new_id().encode()
    try:
        calendar.store.put_if_absent(key, own)
    except ObjectExists:
        try:
            return calendar.store.get(key, bytes_max=_CANCELLED_BYTES_MAX) == own
        except ObjectMissing:
            return False  # everything cancelled then is in the windows, and cleaned up
        except StoreUnavailable as problem:
            raise _unknown(problem) from problem
    except StoreUnavailable as problem:
        if not problem.may_have_happened:
            raise
        raise _unknown(problem) from problem
    return True


def _unknown(problem: StoreUnavailable) -> OutcomeUnknown:
    return OutcomeUnknown(f"It is unknown whether the delayed record was cancelled: {problem.detail}.")


def _check_cancelled(calendar: Calendar, wanted: str, one: Cancellation, *, is_new: bool) -> None:
    """Raise unless the cancellation, which is in the store, came in time and is this call's. ``is_new``: it may be."""
    if calendar.look().closing_ms < one.due_ms:
        if not is_new:
            raise UnknownScheduled(calendar.topic, wanted)
        return
    fate = _outcome(calendar, one)
    if fate == RecordOutcome.TAKEN:
        raise AlreadyDelivered(calendar.topic, wanted)
    if fate == RecordOutcome.MISSED or not is_new:
        raise UnknownScheduled(calendar.topic, wanted)


def list_waiting(calendar: Calendar, after: str, count: int) -> Iterator[WaitingRecords]:
    """Yield up to ``count`` waiting records with ids after ``after`` (empty: all), by id. Raises the same errors as ``find``."""
    newest = calendar.look()
    found = _ID.fullmatch(after)
    first_name, first_row = (found.group(1), int(found.group(2)) + 1) if found else (after, 0)
    prefix = calendar.object_key("")
    for info in calendar.store.list(prefix):
        name = info.key.removeprefix(prefix)
        if name < first_name:
            continue
        one = open_object(calendar.store, info.key)
        if one is None or one.index.last_due <= newest.until_ms:
            continue
        start = first_row if name == first_name else 0
        for piece in _waiting_rows(calendar, name, one, start, newest.until_ms):
            taken = WaitingRecords(piece.name, piece.numbers[:count], piece.rows.slice(0, count))
            count -= len(taken.numbers)
            yield taken
            if not count:
                return


def _waiting_rows(
    calendar: Calendar, name: str, one: ScheduledObject, start: int, until_ms: int
) -> Iterator[WaitingRecords]:
    for block in one.index.blocks:
        if block.last_due <= until_ms or block.first_row + block.row_count <= start:
            continue
        rows = one.read(calendar.store, block)
        numbers = np.arange(block.first_row, block.first_row + block.row_count, dtype=np.int64)
        gone = {
            each.row
            for each in list_cancellations(calendar.store, calendar.root, block.first_due - 1, block.last_due)
            if each.name == name
        }
        kept = (due_times(rows) > until_ms) & (numbers >= start) & ~np.isin(numbers, np.array(sorted(gone), np.int64))
        if kept.any():
            yield WaitingRecords(name, numbers[kept].tolist(), rows.filter(pa.array(kept)))


def _row(calendar: Calendar, wanted: str) -> tuple[str, int, pa.Table, int]:
    found = _ID.fullmatch(wanted)
    one = None if found is None else open_object(calendar.store, calendar.object_key(found.group(1)))
    if found is None or one is None:
        raise UnknownScheduled(calendar.topic, wanted)
    record = one.row(calendar.store, int(found.group(2)))
    if record is None:
        raise UnknownScheduled(calendar.topic, wanted)
    return found.group(1), int(found.group(2)), record, int(due_times(record)[0])


def _is_cancelled(calendar: Calendar, one: Cancellation) -> bool:
    try:
        calendar.store.head(one.key(calendar.root))
    except ObjectMissing:
        return False
    return True


def _outcome(calendar: Calendar, one: Cancellation) -> RecordOutcome:
    """Return the outcome of a record whose time is closed."""
    calendar.plan_until(one.due_ms)
    try:
        windows = calendar.windows_from(one.due_ms)
    except OutcomeUnknown:
        if calendar.clock.now_ms() - one.due_ms < limits.WINDOWS_KEPT_MS:
            raise
        return RecordOutcome.SKIPPED if _is_cancelled(calendar, one) else RecordOutcome.TAKEN
    found = record_outcomes(windows, one.name, np.array([one.due_ms]), np.array([one.row]))
    return RecordOutcome(int(found[0]))
