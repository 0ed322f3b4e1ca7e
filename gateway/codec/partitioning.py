"""Assignment of a partition to each record, and of a timestamp to records that name none.

The route's partition takes precedence, then the record's own, then Kafka's default hash of the key. All records of a request
without a key go to one partition, chosen round-robin for each request.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.incoming import NO_PARTITION, IncomingRecords, Partitions
from gateway.codec.refusal import BadRecords
from log_format.limits import REPORTED_ERRORS_MAX
from log_format.records.partitioner import partition_for_key, partition_for_keys
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP

FEW_KEYS: Final = 4
"""Number of keys up to which keys are hashed one by one: cheaper than starting the array form."""


def route(
    incoming: IncomingRecords,
    *,
    partition_count: int,
    route_partition: int | None,
    sticky: int,
    now_ms: int,
    log_append_time: bool,
) -> tuple[pa.Table, Partitions]:
    """Return the records with ``BATCH_SCHEMA`` and all timestamps, and the partition of each, in ``[0, partition_count)``.

    Args:
        incoming: The records.
        partition_count: Of the topic.
        route_partition: The partition that the route names; None: none.
        sticky: Partition for records without a key.
        now_ms: Time of arrival, the timestamp of records without one.
        log_append_time: Whether every record gets ``now_ms`` as its timestamp.

    Raises:
        RequestRefused: Records name a partition that the topic lacks (400 ``INVALID_RECORD``).
    """
    if route_partition is not None:
        partitions = np.full(len(incoming), route_partition, dtype=np.int32)
    else:
        partitions = _partitions(incoming, partition_count, sticky)
    return _with_timestamps(incoming.records, now_ms, log_append_time=log_append_time), partitions


def _partitions(incoming: IncomingRecords, partition_count: int, sticky: int) -> Partitions:
    partitions = incoming.partitions
    if partitions is not None:
        if len(partitions) and int(partitions.max()) >= partition_count:
            _refuse(incoming, partitions, partition_count)
        if len(partitions) and int(partitions.min()) != NO_PARTITION:
            return partitions
    keys = incoming.records.column("key")
    if keys.null_count == len(keys):
        chosen = np.full(len(keys), sticky, dtype=np.int32)
    elif len(keys) <= FEW_KEYS:
        few = [sticky if key is None else partition_for_key(key, partition_count) for key in keys.to_pylist()]
        chosen = np.array(few, dtype=np.int32)
    else:
        chosen = partition_for_keys(keys, partition_count)
        if keys.null_count:
            chosen = np.where(chosen == NO_PARTITION, np.int32(sticky), chosen)
    return chosen if partitions is None else np.where(partitions == NO_PARTITION, chosen, partitions)


def _refuse(incoming: IncomingRecords, partitions: Partitions, partition_count: int) -> None:
    bad = BadRecords()
    for index in np.flatnonzero(partitions >= partition_count)[:REPORTED_ERRORS_MAX].tolist():
        what = f"must be from 0 to {partition_count - 1}, the partitions of the topic"
        incoming.places.note(bad, index, "partition", what)
    bad.refuse()


def _with_timestamps(records: pa.Table, now_ms: int, *, log_append_time: bool) -> pa.Table:
    timestamps = records.column("timestamp")
    if not log_append_time and not timestamps.null_count:
        return records
    if log_append_time or timestamps.null_count == len(timestamps):
        # Numbers instead of a repeated scalar, which Arrow would convert by way of datetime.
        if len(timestamps) == 1:
            filled = pa.array([now_ms * 1000], TIMESTAMP)
        else:
            filled = pa.array(np.full(len(timestamps), now_ms * 1000, dtype=np.int64)).view(TIMESTAMP)
    else:
        filled = pc.fill_null(timestamps, pa.scalar(now_ms * 1000, TIMESTAMP))
    return records.set_column(0, BATCH_SCHEMA.field("timestamp"), filled)
