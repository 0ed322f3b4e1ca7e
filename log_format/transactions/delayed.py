"""Delayed records of a decided transaction: filed under a name that follows from the transaction, so that filing is idempotent.

A record is delayed if it is due after the decision, whenever the transaction is finished. So each process that finishes it
appends the same records. Blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from log_format import limits
from log_format.clock import Clock
from log_format.errors import OutcomeUnknown
from log_format.ids import NewId
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.filing import find_missed, name_of_request, put_object
from log_format.store import ObjectStore
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_records import StagedRecords


def file_delayed(
    row: TransactionRow,
    requests: Sequence[StagedRecords],
    store: ObjectStore,
    clock: Clock,
    new_id: NewId,
    *,
    known_version: int,
) -> Sequence[StagedRecords]:
    """Store the delayed ones of a topic's records, and return the others, which must be appended. ``row``: of state
    ``committing``. ``known_version`` as for ``put_object``.

    Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``.
    """
    if all(request.deliver_at is None for request in requests):
        return requests
    at_once: list[StagedRecords] = []
    later: list[DelayedRecords] = []
    for request in requests:
        times = np.full(len(request.partitions), -1, np.int64) if request.deliver_at is None else request.deliver_at
        records = DelayedRecords(
            records=request.records,
            partitions=request.partitions,
            deliver_at=times,
            indices=np.arange(len(times), dtype=np.int64),
        )
        is_later = times > row.recorded_at_ms
        at_once.append(_with_records(request, records.where(~is_later)))
        later.append(records.where(is_later))
    delayed = DelayedRecords.concatenate(later)
    first = requests[0]
    if len(delayed):
        calendar = Calendar(store, first.topic, first.topic_id, clock, new_id)
        name = name_of_request(row.transaction_id, first.topic)
        found = put_object(calendar, name, [delayed], is_repeatable=True, known_version=known_version)
        try:
            (one,) = find_missed(calendar, found)
        except OutcomeUnknown:
            if clock.now_ms() - int(delayed.deliver_at.min()) < limits.WINDOWS_KEPT_MS:
                raise
            (one,) = found  # its windows are gone: only an earlier try can have filed it, in time
        at_once.append(_with_records(first, one.late))
    return [request for request in at_once if request.records.num_rows]


def _with_records(request: StagedRecords, records: DelayedRecords) -> StagedRecords:
    return StagedRecords(
        topic=request.topic, topic_id=request.topic_id, records=records.records, partitions=records.partitions
    )
