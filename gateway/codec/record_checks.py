"""Refusals of records that their topic does not accept: for their size, a missing key or their timestamps, as in Kafka.

Each names every record that it refuses.
"""

from __future__ import annotations

import numpy as np

from gateway.codec.incoming import IncomingRecords
from gateway.codec.refusal import BadRecords
from log_format.errors import ErrorCode
from log_format.limits import REPORTED_ERRORS_MAX
from log_format.records.size import record_bytes
from log_format.records.timestamps import timestamps_ms
from log_format.topic.config import AcceptedTimes


def refuse_large(incoming: IncomingRecords, message_bytes_max: int) -> None:
    """Raise ``RequestRefused`` (413 ``RECORD_TOO_LARGE``, ``limit_bytes``) naming the records above ``message_bytes_max``."""
    sizes = record_bytes(incoming.records)
    large = np.flatnonzero(sizes > message_bytes_max)
    if not len(large):
        return
    bad = BadRecords()
    for index in large[:REPORTED_ERRORS_MAX].tolist():
        what = (
            f"has {sizes[index]} bytes of key, value and headers; the topic's max.message.bytes is {message_bytes_max}"
        )
        incoming.places.note(bad, index, "", what)
    raise bad.refusal(ErrorCode.RECORD_TOO_LARGE, limit_bytes=message_bytes_max)


def refuse_keyless(incoming: IncomingRecords) -> None:
    """Raise ``RequestRefused`` (400 ``INVALID_RECORD``) naming the records without a key; an empty key counts as a key.

    For topics that compact keys: no later record would ever supersede such a record.
    """
    keys = incoming.records.column("key")
    if not keys.null_count:
        return
    bad = BadRecords()
    for index in np.flatnonzero(keys.is_null().to_numpy())[:REPORTED_ERRORS_MAX].tolist():
        incoming.places.note(bad, index, "key", "is missing or null; the topic's cleanup.policy has compact")
    bad.refuse()


def refuse_untimely(incoming: IncomingRecords, taken: AcceptedTimes, now_ms: int) -> None:
    """Raise ``RequestRefused`` (400 ``INVALID_RECORD``) naming the records outside of ``taken``. A record without a timestamp
    is of now."""
    times = timestamps_ms(incoming.records, now_ms)
    found = taken.outside(times)
    if not len(found):
        return
    bad = BadRecords()
    for index in found[:REPORTED_ERRORS_MAX].tolist():
        incoming.places.note(bad, index, "timestamp", f"is {times[index]}; {taken}")
    bad.refuse()
