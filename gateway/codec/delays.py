"""Checks of delayed records against their topic, and timestamps of delayed records that have none."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.incoming import NO_DELAY, IncomingRecords, Milliseconds
from gateway.codec.refusal import BadRecords
from log_format.limits import REPORTED_ERRORS_MAX
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP


def refuse_late(incoming: IncomingRecords, deliver_at: Milliseconds, latest_ms: int, delay_ms_max: int) -> None:
    """Raise ``RequestRefused`` (400 ``INVALID_RECORD``) naming the records whose delivery time is after ``latest_ms``."""
    late = np.flatnonzero(deliver_at > latest_ms)
    if not len(late):
        return
    assert incoming.delays is not None
    bad = BadRecords()
    for index in late[:REPORTED_ERRORS_MAX].tolist():
        member = "deliver_at" if incoming.delays.after[index] == NO_DELAY else "deliver_after_ms"
        incoming.places.note(bad, index, member, f"is more than {delay_ms_max} ms ahead, the topic's delay.max.ms")
    bad.refuse()


def with_due_timestamps(records: pa.Table, deliver_at: Milliseconds, now_ms: int) -> pa.Table:
    """Return the records, with their delivery time as the timestamp of delayed records without one."""
    timestamps = records.column("timestamp")
    due = pa.array(deliver_at * 1_000, pa.int64(), mask=deliver_at <= now_ms).view(TIMESTAMP)
    return records.set_column(0, BATCH_SCHEMA.field("timestamp"), pc.coalesce(timestamps, due))
