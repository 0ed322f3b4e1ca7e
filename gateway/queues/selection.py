"""Selection of the records read that a queue delivers: those that have not expired and pass its filter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gateway.queues.queue_partition import HeldRange
from log_format.queues.row import QueueSettings
from log_format.queues.runs import SETTLED as RUN_SETTLED
from log_format.queues.runs import Run
from log_format.records.expiry import expired_mask
from log_format.records.filter import RecordFilter


def filter_of(settings: QueueSettings) -> RecordFilter | None:
    """Return the queue's filter; None: every record passes."""
    wanted = settings.filter
    if wanted is None:
        return None
    return RecordFilter.from_texts(wanted.headers, None if wanted.key is None else wanted.key.encode())


@dataclass(frozen=True, slots=True)
class SelectedRecords:
    """Records to deliver. ``expired``: offsets of expired records. ``is_whole``: whether no record was left out."""

    records: pa.Table
    expired: tuple[int, ...]
    is_whole: bool


def select_records(records: pa.Table, wanted: RecordFilter | None, now_ms: int) -> SelectedRecords:
    """Return which of ``records`` (``RECORD_SCHEMA``) are delivered."""
    late = expired_mask(records.column("headers"), now_ms)
    has_late = bool(late.any())
    if wanted is None and not has_late:
        return SelectedRecords(records, (), True)
    passing = np.ones(records.num_rows, np.bool_) if wanted is None else wanted.mask(records)
    offsets = records.column("offset").to_numpy()
    gone = tuple(offsets[late & passing].tolist()) if has_late else ()
    kept = passing & ~late
    if kept.all():
        return SelectedRecords(records, (), True)
    return SelectedRecords(records.filter(pa.array(kept)), gone, False)


def left_out_run(held: HeldRange) -> Run:
    """Return the run of a held range none of whose records is delivered."""
    return Run(held.first, held.last, RUN_SETTLED)
