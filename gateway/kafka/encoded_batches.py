"""Cache of record batches that were encoded for one consumer, for other consumers that read the same records at the tail.
Bounded; the least recently used batch is evicted first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

BYTES_MAX: Final = 8 * 1024 * 1024
_OVERHEAD_BYTES: Final = 600

Parts = Sequence[bytes | memoryview]


class BatchKey(NamedTuple):
    """Key of a batch: its records, their compression, their type of timestamps, and the offset below which records were erased. A
    batch with the same key never changes."""

    topic_id: str
    partition: int
    offset: int
    next_offset: int
    codec: int
    log_append_time: bool
    erased_end: int = 0


class EncodedBatches:
    """The cache. Used on the event loop only."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self.size_bytes = 0
        self._kept: OrderedDict[BatchKey, Parts] = OrderedDict()

    def find(self, key: BatchKey) -> Parts | None:
        """Return the batch, or None if it is not cached."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def add(self, key: BatchKey, batch: Parts) -> None:
        """Cache a batch; one larger than a quarter of the cache is not kept."""
        if key in self._kept or _size(batch) > self._bytes_max // 4:
            return
        self._kept[key] = batch
        self.size_bytes += _size(batch)
        while self.size_bytes > self._bytes_max:
            _, gone = self._kept.popitem(last=False)
            self.size_bytes -= _size(gone)


def _size(batch: Parts) -> int:
    return sum(map(len, batch)) + _OVERHEAD_BYTES
