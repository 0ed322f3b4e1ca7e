"""Storing objects of delayed records, so that each record is published or is known not to be.

1. The object is put first, then the notice of its first record (``due``): from then on it may be published. Putting an object
   twice under the same name is idempotent.
2. Then the newest window is looked up (``calendar``). If the first records may be too late for it, the windows say which of them
   are published. The others are due: the caller appends them.

Blocks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format import limits
from log_format.errors import BackOff, ObjectExists, OutcomeUnknown, StoreUnavailable
from log_format.records.schema import BATCH_SCHEMA
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.due import DueNotice, put_notice
from log_format.scheduled.record_outcome import RecordOutcome, record_outcomes
from log_format.scheduled.scheduled_object import SCHEMA, encode_object, open_object
from log_format.store import ObjectStore


@dataclass(frozen=True, slots=True)
class FiledRequest:
    """One request's delayed records, and their rows in the object. ``missed``: the records to append immediately."""

    name: str
    records: DelayedRecords
    rows: npt.NDArray[np.int64]
    missed: npt.NDArray[np.bool_]

    @property
    def late(self) -> DelayedRecords:
        """Records that the caller must append."""
        return self.records.where(self.missed)


def name_of_request(*parts: object) -> str:
    """Return the object's name for a request that may be retried: the same for each try."""
    return "r" + hashlib.sha256("~".join(map(str, parts)).encode()).hexdigest()[:32]


def put_object(
    calendar: Calendar, name: str, requests: Sequence[DelayedRecords], *, is_repeatable: bool, known_version: int
) -> list[FiledRequest]:
    """Store the object of these requests and its notice, and return the requests, none of them counted as missed yet.

    Args:
        calendar: windows of the topic.
        name: name of the object.
        requests: the requests' delayed records, at least one request.
        is_repeatable: the object is that of one request that an earlier try may have stored; then the first try's object is
            returned. An object without records says that this try delays none, so that no other try does.
        known_version: head of the topic's own log, by a look that began after the requests came. Requests to erase up to it
            leave these records alone; later ones mean them.

    Raises ``BackOff`` (nothing happened), ``OutcomeUnknown``, ``CorruptData``.
    """
    kept_ms = limits.RETRIED_OBJECTS_KEPT_MS if is_repeatable else limits.WINDOWS_KEPT_MS
    made_ms = calendar.clock.now_ms()
    encoded = encode_object(requests, made_ms=made_ms, kept_ms=kept_ms, known_version=known_version)
    key, index = calendar.object_key(name), encoded.index
    filed = [FiledRequest(name, *each) for each in zip(requests, encoded.rows, map(_none, requests), strict=True)]
    try:
        calendar.store.put_if_absent(key, encoded.data)
    except ObjectExists:
        first_due = index.first_due  # the name is unique: the network sent the request twice
        if is_repeatable:
            earlier = _read_earlier_try(calendar.store, key, name)
            if earlier is None:
                raise BackOff("Delayed records were delivered while they were sent again.") from None
            if not len(earlier.records):
                return [earlier]
            filed, first_due = [earlier], int(earlier.records.deliver_at.min())
    except StoreUnavailable as problem:
        # Without a notice the object is never published.
        _delete_without_notice(calendar.store, key, is_repeatable=is_repeatable)
        raise BackOff(f"The store did not accept delayed records: {problem.detail}.") from problem
    else:
        first_due = index.first_due
    try:
        put_notice(calendar.store, DueNotice(first_due, calendar.topic, calendar.topic_id, name))
    except StoreUnavailable as problem:
        detail = f"The store did not accept the notice of delayed records: {problem.detail}."
        if problem.may_have_happened:
            raise OutcomeUnknown(detail) from problem
        _delete_without_notice(calendar.store, key, is_repeatable=is_repeatable)
        raise BackOff(detail) from problem
    return filed


def _delete_without_notice(store: ObjectStore, key: str, *, is_repeatable: bool) -> None:
    """Delete an object without a notice, best effort, since it would be listed as waiting; not a repeatable one, which may be
    another try's."""
    if not is_repeatable:
        with suppress(StoreUnavailable):
            store.delete(key)


def find_missed(calendar: Calendar, filed: Sequence[FiledRequest]) -> list[FiledRequest]:
    """Return the same with the records that were missed. Raises ``OutcomeUnknown``: they may be published."""
    try:
        first_due = first_due_ms(filed)
        if first_due is None:
            return list(filed)
        newest = calendar.look()
        if newest.closing_ms < first_due:
            return list(filed)
        calendar.plan_until(newest.closing_ms)
        windows = calendar.windows_from(first_due)
    except StoreUnavailable as problem:
        raise OutcomeUnknown(
            f"It is unknown whether delayed records were stored in time: {problem.detail}."
        ) from problem
    return [
        FiledRequest(
            one.name,
            one.records,
            one.rows,
            record_outcomes(windows, one.name, one.records.deliver_at, one.rows) == RecordOutcome.MISSED,
        )
        for one in filed
    ]


def first_due_ms(filed: Sequence[FiledRequest]) -> int | None:
    """Return when the first of their records is due; None without any."""
    return min((int(one.records.deliver_at.min()) for one in filed if len(one.records)), default=None)


def withdraw(calendar: Calendar, filed: FiledRequest) -> None:
    """Delete an object whose request is refused. Raises ``OutcomeUnknown`` if some of it may be published."""
    first_due = int(filed.records.deliver_at.min())
    try:
        calendar.store.delete(DueNotice(first_due, calendar.topic, calendar.topic_id, filed.name).key)
        calendar.store.delete(calendar.object_key(filed.name))
        newest = calendar.look()
        if newest.closing_ms < first_due:
            return
        windows = calendar.windows_from(first_due)
    except StoreUnavailable as problem:
        raise OutcomeUnknown(f"Delayed records could not be removed again: {problem.detail}.") from problem
    if newest.until_ms < newest.closing_ms or any(filed.name in window.objects for window in windows):
        raise OutcomeUnknown("Some of the delayed records may be delivered.")


def _none(records: DelayedRecords) -> npt.NDArray[np.bool_]:
    return np.zeros(len(records), np.bool_)


def find_earlier_try(calendar: Calendar, name: str) -> FiledRequest | None:
    """Return what an earlier try of the request has stored; None if that is gone. Raises ``BackOff``, ``CorruptData``."""
    found = _read_earlier_try(calendar.store, calendar.object_key(name), name)
    if found is None:
        return None
    try:
        (found,) = find_missed(calendar, [found])
    except OutcomeUnknown as problem:
        first_due = first_due_ms([found])
        assert first_due is not None, "without records there is nothing to check"
        if calendar.clock.now_ms() - first_due < limits.WINDOWS_KEPT_MS:
            # Which of its records have an id is not known: those that were missed were appended.
            raise BackOff(problem.detail) from problem
        return found  # its windows are gone
    return found


def _read_earlier_try(store: ObjectStore, key: str, name: str) -> FiledRequest | None:
    """Return what an earlier try of the request has stored."""
    try:
        found = open_object(store, key)
        if found is None:
            return None
        pieces = [found.read(store, block) for block in found.index.blocks]
        table = pa.concat_tables([SCHEMA.empty_table(), *pieces]).combine_chunks()
    except StoreUnavailable as problem:
        raise BackOff(f"The store did not return delayed records: {problem.detail}.") from problem
    records = DelayedRecords(
        records=table.select(BATCH_SCHEMA.names),
        partitions=table.column("partition").to_numpy().astype(np.int32),
        deliver_at=table.column("deliver_at").to_numpy(),
        indices=table.column("index").to_numpy(),
    )
    return FiledRequest(name, records, np.arange(len(records), dtype=np.int64), _none(records))
