"""Gives each record its partition, and a timestamp where it names none.

The route's partition wins, then the record's, then Kafka's default hash of the key. Records without a key go to the partition
whose turn it is with this request.
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
"""Up to so many keys are hashed one by one: cheaper than starting the array form."""


def route(
    incoming: IncomingRecords,
    *,
    partition_count: int,
    route_partition: int | None,
    sticky: int,
    now_ms: int,
    log_append_time: bool,
) -> tuple[pa.Table, Partitions]:
    """The records with ``BATCH_SCHEMA`` and all timestamps, and the partition of each, in ``[0, partition_count)``.

    ``route_partition`` (None: the route names none) and ``sticky`` are partitions of the topic. ``now_ms`` is the time of arrival
    in milliseconds; with ``log_append_time`` every record gets it. Raises ``RequestRefused`` (400 ``INVALID_RECORD``) for records
    that name a partition that the topic lacks.
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
        # Numbers instead of a repeated scalar, which would be converted by way of datetime.
        if len(timestamps) == 1:
            filled = pa.array([now_ms * 1000], TIMESTAMP)
        else:
            filled = pa.array(np.full(len(timestamps), now_ms * 1000, dtype=np.int64)).view(TIMESTAMP)
    else:
        filled = pc.fill_null(timestamps, pa.scalar(now_ms * 1000, TIMESTAMP))
    return records.set_column(0, BATCH_SCHEMA.field("timestamp"), filled)
