"""One request: records of several files, and the byte ranges that they come from."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from tidelog.bodies.encode import encode_table
from tidelog.collect import limits
from tidelog.collect.body import FileRecords, RecordForm, records_table
from tidelog.collect.position import Position, Tail
from tidelog.collect.split import Records
from tidelog.collect.state import Range

_COST_MAX: Final = limits.REQUEST_COST + limits.REQUEST_COST // 2
"""Maximum cost of a request, unless a single record costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicForm:
    """Facts about a topic that shape requests. ``record_bytes_max``: limit of key, value and headers."""

    partition_count: int
    record_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A complete request."""

    table: pa.Table
    ranges: tuple[Range, ...]

    @property
    def record_count(self) -> int:
        """Number of records."""
        count: int = self.table.num_rows
        return count

    @property
    def file_bytes(self) -> int:
        """Number of file bytes."""
        return sum(each.size_bytes for each in self.ranges)

    def body(self) -> bytes:
        """Return the request's body."""
        return encode_table(self.table)


@dataclass(slots=True)
class BatchBuilder:
    """Collector of records until a request is full."""

    form: RecordForm
    partition_for: Callable[[str], int]
    ranges: list[Range] = field(default_factory=list)
    _tables: list[pa.Table] = field(default_factory=list)
    _cost: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the request has its target size."""
        return self._cost >= limits.REQUEST_COST

    @property
    def is_empty(self) -> bool:
        """Whether the request has no records yet."""
        return not self.ranges

    def fitting_bytes(self, path: str, records: Records) -> int:
        """Return how many bytes of the block fit into the request's bound; 0: none fit in addition to the present ones."""
        room = _COST_MAX - self._cost
        for_key = 1 if self.form.key is None else 2
        record_cost = self.form.cost_bytes(path)
        if records.consumed * for_key + records.count * record_cost <= room:
            return records.consumed
        costs = records.ends * for_key + record_cost * (1 + records.end_indices)
        fitting = int((costs <= room).sum())
        if fitting:
            return int(records.ends[fitting - 1])
        if not self.is_empty:
            return 0
        return int(records.ends[0]) if len(records.ends) else records.consumed

    def add(self, file_id: int, path: str, start: Position, block: bytes, records: Records) -> None:
        """Add the records of ``block[:records.consumed]``, which begins at ``start``."""
        consumed = block[: records.consumed]
        if records.count:
            part = FileRecords(path=path, partition=self.partition_for(path), records=records)
            table = records_table(part, self.form)
            self._tables.append(table)
            self._cost += table.nbytes
        self.ranges.append(
            Range(
                file_id=file_id,
                start=start,
                end=records.next,
                tail=Tail.of(consumed),
                whole=records.whole,
                crc32=zlib.crc32(consumed),
            )
        )

    def build(self) -> Batch | None:
        """Return the request; None if it has no record."""
        if not self._tables:
            return None
        return Batch(table=pa.concat_tables(self._tables), ranges=tuple(self.ranges))
