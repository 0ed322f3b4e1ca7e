"""Delivery of a queue ordered by key: of each key only the first unsettled record, and that only if it is available.

A record that is held or delayed holds back all later ones of its key. Null keys are free. The keys of the records from the
start offset on are kept as numbers (hashes of 64 bits), so that each is read once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits
from gateway.queues.queue_partition import HeldRange, QueuePartition
from gateway.queues.received import ReadTarget
from log_format.clock import Clock
from log_format.queues.runs import RELEASED

NO_KEY: Final = 0
NO_RECORD: Final = -1
"""Number for an offset without a record. Python's hashes are never -1."""
_READ_RECORDS: Final = 1_000
_READ_BYTES: Final = 1024 * 1024
_FREE, _BLOCKED, _SETTLED = 0, 1, 2


class KeyedAcquisition:
    """Acquisition of records from queues ordered by key. Used on the event loop only."""

    def __init__(self, reading: PartitionReader, clock: Clock) -> None:
        self._reading = reading
        self._clock = clock

    async def acquire(self, at: ReadTarget, count_max: int, ahead: int) -> list[HeldRange]:
        """Hold up to ``count_max`` records, each the first of its key, less than ``ahead`` offsets after the start offset.

        Raises what ``PartitionReader.read`` raises.
        """
        share = at.share
        end = min(at.end, share.start + ahead)
        while True:
            spans = _deliverable(share, self._clock.now_ms(), count_max)
            known_to = share.keys_from + len(share.keys)
            if known_to >= end or sum(last - first + 1 for first, last, _ in spans) >= count_max:
                break
            if not await self._learn(at, end):
                break
        spans = _deliverable(share, self._clock.now_ms(), count_max)
        return [share.hold(HeldRange(first, last, count)) for first, last, count in spans]

    async def _learn(self, at: ReadTarget, end: int) -> bool:
        """Read further keys, up to ``end``; return whether more keys are known now."""
        share = at.share
        known_to = share.keys_from + len(share.keys)
        offset = max(known_to, share.start)
        limits = ReadLimits(records_max=min(_READ_RECORDS, end - offset), bytes_max=_READ_BYTES)
        found = await self._reading.read(at.topic, at.state, share.partition, offset, limits)
        if share.keys_from + len(share.keys) != known_to:
            return True  # Another caller has read these keys.
        keys = np.full(max(0, min(found.next_offset, end) - offset), NO_RECORD, np.int64)
        for table in found.tables:
            offsets = table.column("offset").to_numpy()
            inside = offsets < offset + len(keys)
            keys[offsets[inside] - offset] = key_numbers(table.column("key"))[inside]
        if known_to < offset:
            share.keys, share.keys_from = keys, offset
        else:
            share.keys = np.concatenate([share.keys, keys])
        return len(keys) > 0


def key_numbers(keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return a number for each key; ``NO_KEY`` for null."""
    numbers = [_numbers(chunk) for chunk in keys.chunks]
    return np.concatenate(numbers) if numbers else np.zeros(0, np.int64)


def _numbers(keys: pa.Array) -> npt.NDArray[np.int64]:
    encoded = pc.dictionary_encode(keys)
    of_key = np.array([hash(key) or 1 for key in encoded.dictionary.to_pylist()] or [NO_KEY], np.int64)
    at = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return np.where(at < 0, NO_KEY, of_key[np.maximum(at, 0)])


def _deliverable(share: QueuePartition, now_ms: int, count_max: int) -> list[tuple[int, int, int]]:
    """Return deliverable ranges, each of one delivery count, as (first, last, count)."""
    if share.keys_from < share.start:
        share.keys = share.keys[share.start - share.keys_from :]
        share.keys_from = share.start
    base, keys = share.keys_from, share.keys
    status = np.where(keys == NO_RECORD, _SETTLED, _FREE).astype(np.int8)
    counts = np.zeros(len(keys), np.int32)
    for run in share.runs:
        part = slice(max(0, run.first - base), max(0, run.last + 1 - base))
        if run.state != RELEASED:
            status[part] = _SETTLED
        else:
            counts[part] = run.count
            if run.due_ms > now_ms:
                status[part] = _BLOCKED
    for held in share.held:
        status[max(0, held.first - base) : max(0, held.last + 1 - base)] = _BLOCKED
    if share.barrier is not None:
        below = status[: max(0, share.barrier - base)]
        below[below == _FREE] = _BLOCKED
    unsettled = np.flatnonzero((status != _SETTLED) & (keys != NO_KEY))
    first_of_key = unsettled[np.unique(keys[unsettled], return_index=True)[1]]
    free = np.concatenate(
        [first_of_key[status[first_of_key] == _FREE], np.flatnonzero((status == _FREE) & (keys == NO_KEY))]
    )
    chosen = np.sort(free)[:count_max]
    if not len(chosen):
        return []
    breaks = np.flatnonzero((np.diff(chosen) != 1) | (np.diff(counts[chosen]) != 0)) + 1
    return [(int(span[0]) + base, int(span[-1]) + base, int(counts[span[0]])) for span in np.split(chosen, breaks)]
