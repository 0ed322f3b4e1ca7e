"""Refusal of records that are larger than their topic allows."""

from __future__ import annotations

import numpy as np

from gateway.codec.incoming import IncomingRecords
from gateway.codec.refusal import BadRecords
from log_format.errors import ErrorCode
from log_format.limits import REPORTED_ERRORS_MAX
from log_format.records.size import record_bytes


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
