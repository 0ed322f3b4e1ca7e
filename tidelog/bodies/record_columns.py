"""Columns of records that wait to be sent: a record costs a few list entries and its bytes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.bodies.partitioner import partition_for_key
from tidelog.types.record import Headers, headers_bytes

Delay = tuple[str, int]
"""``deliver_at`` or ``deliver_after_ms``, and its value in milliseconds."""

ANY_PARTITION = -1
"""Value in ``named`` of records for which the user named no partition."""

_VECTOR_KEYS_MIN = 512
"""Number of keys from which vectorized hashing pays for the import of numpy and the copy."""


class RecordColumns(msgspec.Struct):
    """Parallel lists with one entry per record; ``headers`` and ``delays`` by index, only for records that have some.

    ``named``: partitions that the user asked for. ``assigned``: partitions to which the records go, filled just before sending.
    """

    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    named: list[int] = []
    timestamps_ms: list[int] = []
    headers: dict[int, Headers] = {}
    assigned: list[int] = []
    delays: dict[int, Delay] = {}

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.values)

    def slice(self, start: int, end: int) -> RecordColumns:
        """Return the records ``[start, end)``."""
        return RecordColumns(
            self.keys[start:end],
            self.values[start:end],
            self.named[start:end],
            self.timestamps_ms[start:end],
            {index - start: headers for index, headers in self.headers.items() if start <= index < end},
            self.assigned[start:end],
            {index - start: delay for index, delay in self.delays.items() if start <= index < end},
        )

    def select(self, indices: Sequence[int]) -> RecordColumns:
        """Return the records at ``indices``, in their order."""
        return RecordColumns(
            [self.keys[index] for index in indices],
            [self.values[index] for index in indices],
            [self.named[index] for index in indices],
            [self.timestamps_ms[index] for index in indices],
            {place: self.headers[index] for place, index in enumerate(indices) if index in self.headers},
            [self.assigned[index] for index in indices],
            {place: self.delays[index] for place, index in enumerate(indices) if index in self.delays},
        )

    def size_bytes(self, index: int) -> int:
        """Return the size of one record's key, value and headers, as ``max.message.bytes`` counts it."""
        headers = headers_bytes(self.headers.get(index, ()))
        return len(self.keys[index] or b"") + len(self.values[index] or b"") + headers

    def assign(self, partition_count: int, keyless_partition: int) -> None:
        """Fill ``assigned`` with the named partition, else the key's, else ``keyless_partition``."""
        if all(key is None for key in self.keys):
            self.assigned = [keyless_partition if named == ANY_PARTITION else named for named in self.named]
            return
        self.assigned = [
            named if named != ANY_PARTITION else (hashed if hashed != ANY_PARTITION else keyless_partition)
            for named, hashed in zip(self.named, self._by_key(partition_count), strict=True)
        ]

    def _by_key(self, partition_count: int) -> list[int]:
        if len(self) >= _VECTOR_KEYS_MIN:
            try:
                import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

                from log_format.records.partitioner import partition_for_keys  # noqa: PLC0415 - needs numpy and pyarrow
            except ModuleNotFoundError:
                pass
            else:
                hashed: list[int] = partition_for_keys(pa.array(self.keys, pa.binary()), partition_count).tolist()
                return hashed
        return [ANY_PARTITION if key is None else partition_for_key(key, partition_count) for key in self.keys]
