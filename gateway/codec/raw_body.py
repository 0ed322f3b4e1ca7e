"""``application/octet-stream`` and ``text/plain``: the body, byte for byte, is one record's value."""

from __future__ import annotations

import pyarrow as pa

from gateway.codec.base64_text import decode_base64
from gateway.codec.incoming import PARTITION_MAX, IncomingRecords, PlaceKind, Places
from gateway.codec.record_columns import RecordColumns, incoming
from gateway.codec.refusal import BadRecords
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN


def decode_raw(
    body: bytes,
    *,
    key: str | None = None,
    key_base64: str | None = None,
    partition: int | None = None,
    timestamp: int | None = None,
) -> IncomingRecords:
    """The one record of a raw body. Its other members are query parameters, None where absent, and errors name them so.

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
    bad.refuse()
    columns = RecordColumns(
        values=pa.array([body], pa.binary()),
        keys=None if key_bytes is None else pa.array([key_bytes], pa.binary()),
        timestamps=None if timestamp is None else pa.array([timestamp], pa.int64()),
        partitions=None if partition is None else pa.array([partition], pa.int64()),
    )
    return incoming([columns], Places(PlaceKind.QUERY))
