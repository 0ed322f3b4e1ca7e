"""Records as a request brings them to the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from log_format.records.schema import BATCH_SCHEMA
from log_format.topic.append import Batch


def records_of(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None, timestamps_ms: int | Sequence[int] = 0
) -> pa.Table:
    """A table of ``BATCH_SCHEMA`` without headers; one timestamp for all, or one for each."""
    count = len(values)
    times = [timestamps_ms] * count if isinstance(timestamps_ms, int) else timestamps_ms
    columns = [
        pa.array([time_ms * 1000 for time_ms in times], BATCH_SCHEMA.field("timestamp").type),
        pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(count, BATCH_SCHEMA.field("headers").type),
    ]
    return pa.table(columns, schema=BATCH_SCHEMA)


def batch_of(
    topic_id: str | None,
    values: Sequence[bytes | None],
    partitions: int | Sequence[int] = 0,
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamps_ms: int | Sequence[int] = 0,
    record_bytes_max: int | None = None,
    **stamps: Any,
) -> Batch:
    """One request's records, all to one partition or each to its own."""
    assert topic_id is not None
    routed = [partitions] * len(values) if isinstance(partitions, int) else partitions
    return Batch(
        topic_id=topic_id,
        records=records_of(values, keys, timestamps_ms),
        partitions=np.array(routed, np.int32),
        record_bytes_max=max(len(value or b"") for value in values) if record_bytes_max is None else record_bytes_max,
        **stamps,
    )
