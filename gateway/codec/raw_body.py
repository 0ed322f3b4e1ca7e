"""``application/octet-stream`` and ``text/plain``: the body, byte for byte, is one record's value."""

from __future__ import annotations

from typing import Final

import numpy as np

from gateway.codec.base64_text import decode_base64
from gateway.codec.incoming import NO_DELAY, PARTITION_MAX, Delays, IncomingRecords, LocationKind, RecordLocations
from gateway.codec.refusal import BadRecords
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from log_format.records.single import SingleRecord

_IN_QUERY: Final = RecordLocations(LocationKind.QUERY)


def decode_raw(
    body: bytes,
    *,
    key: str | None = None,
    key_base64: str | None = None,
    partition: int | None = None,
    timestamp: int | None = None,
    deliver_at: int | None = None,
    deliver_after_ms: int | None = None,
) -> IncomingRecords:
    """Return the only record of a raw body. Its other members are query parameters, None if absent; errors name them as such.

    ``timestamp`` is in milliseconds. Raises ``RequestRefused`` (400 ``INVALID_RECORD``).
    """
    bad = BadRecords()
    key_bytes = None if key is None else key.encode()
    if key_base64 is not None:
        key_bytes = decode_base64(key_base64)
        if key is not None:
            bad.add("key", "and key_base64 exclude each other")
        elif key_bytes is None:
            bad.add("key_base64", "must be base64: standard alphabet, padded")
    if partition is not None and not 0 <= partition <= PARTITION_MAX:
        bad.add("partition", f"must be from 0 to {PARTITION_MAX}")
    if timestamp is not None and not TIMESTAMP_MS_MIN <= timestamp <= TIMESTAMP_MS_MAX:
        bad.add("timestamp", f"must be from {TIMESTAMP_MS_MIN} to {TIMESTAMP_MS_MAX}")
    if deliver_at is not None and deliver_after_ms is not None:
        bad.add("deliver_at", "and deliver_after_ms exclude each other")
    bad.refuse()
    is_delayed = deliver_at is not None or deliver_after_ms is not None
    at, after = (np.array([NO_DELAY if time is None else time], np.int64) for time in (deliver_at, deliver_after_ms))
    return IncomingRecords(
        SingleRecord(timestamp, key_bytes, body),
        partitions=None if partition is None else np.array([partition], np.int32),
        places=_IN_QUERY,
        delays=Delays(at, after) if is_delayed else None,
    )
