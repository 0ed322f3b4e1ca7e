"""An object of delayed records: written once, read block by block.

::

    [0, 4)       "TDS1"
    [4, 8)       the index's length, 4 bytes, little-endian
    [8, ...)     the index: JSON, ``Index``
    then         the blocks, one after another: Arrow IPC streams, compressed with zstd

Rows are sorted by ``deliver_at``, and a record's row is its number in that order. A block has at most ``SCHEDULED_BLOCK_RECORDS``
and about ``SCHEDULED_BLOCK_BYTES``. So what is due by a time is a prefix of the rows, and a publisher reads only the blocks of
its window.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format import limits
from log_format.errors import CorruptData, ObjectMissing
from log_format.records.schema import BATCH_SCHEMA
from log_format.records.size import record_bytes
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.store import ObjectStore

MAGIC: Final = b"TDS1"
_HEAD_BYTES: Final = 16 * 1024
"""Bytes of the first read: most objects are smaller."""
_INDEX_BYTES_MAX: Final = 16 * 1024 * 1024
SCHEMA: Final = pa.schema(
    [
        *BATCH_SCHEMA,
        pa.field("partition", pa.int32()),
        pa.field("deliver_at", pa.int64()),
        pa.field("request", pa.int32()),
        pa.field("index", pa.int64()),
    ]
)


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Bytes ``[start, start + size_bytes)`` after the index; due times of its first and last row, in ms since the epoch."""

    start: int
    size_bytes: int
    crc32: int
    first_row: int
    row_count: int
    first_due: int
    last_due: int


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """The index of an object. ``made_ms``: when it was put. ``kept_ms``: how long it is kept after its last due time (or
    ``made_ms``). ``emptied``: lengths of the blocks after an erasure, whose ``size_bytes`` are those of before; else empty.
    ``known_version``: version of the topic's log that was looked up before the object was put; None: by an earlier release."""

    kept_ms: int
    made_ms: int
    blocks: tuple[Block, ...]
    emptied: tuple[int, ...] = ()
    known_version: int | None = None

    @property
    def first_due(self) -> int:
        """Due time of the first record; without records the time at which the object may be deleted."""
        return self.blocks[0].first_due if self.blocks else self.made_ms + self.kept_ms

    @property
    def last_due(self) -> int:
        """Due time of the last record; without records the time at which the object was put."""
        return self.blocks[-1].last_due if self.blocks else self.made_ms


@dataclass(frozen=True, slots=True)
class Encoded:
    """The object's bytes. ``rows[i]``: the rows of the i-th request's records."""

    data: bytes
    index: Index
    rows: Sequence[npt.NDArray[np.int64]]


_encode_index: Final = msgspec.json.Encoder().encode
_decode_index: Final = msgspec.json.Decoder(Index).decode


def encode_object(
    requests: Sequence[DelayedRecords],
    *,
    made_ms: int,
    kept_ms: int = limits.WINDOWS_KEPT_MS,
    known_version: int | None = None,
) -> Encoded:
    """Encode the object of these requests, at least one. The other arguments are members of ``Index``."""
    table = pa.concat_tables([one.records for one in requests])
    lengths = [len(one) for one in requests]
    deliver_at = np.concatenate([one.deliver_at for one in requests])
    columns = {
        "partition": np.concatenate([one.partitions for one in requests]).astype(np.int32),
        "deliver_at": deliver_at,
        "request": np.repeat(np.arange(len(requests), dtype=np.int32), lengths),
        "index": np.concatenate([one.indices for one in requests]),
    }
    for name, column in columns.items():
        table = table.append_column(SCHEMA.field(name), pa.array(column))
    order = np.argsort(deliver_at, kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    blocks, pieces, at = [], [], 0
    for first, end in _cuts(table):
        piece = _encoded_block(table.slice(first, end - first))
        due = deliver_at[order[[first, end - 1]]]
        blocks.append(
            Block(at, len(piece), zlib.crc32(piece), first, end - first, int(due[0]), int(due[1])),
        )
        pieces.append(piece)
        at += len(piece)
    index = Index(kept_ms, made_ms, tuple(blocks), known_version=known_version)
    text = _encode_index(index)
    data = b"".join((MAGIC, len(text).to_bytes(4, "little"), text, *pieces))
    return Encoded(data, index, np.split(places, np.cumsum(lengths)[:-1]))


def encode_emptied(one: ScheduledObject, blocks: Sequence[tuple[pa.Table, npt.NDArray[np.bool_]]]) -> bytes:
    """Encode an object again, with some rows empty.

    ``blocks``: the rows of each block, and which of them lose key, value and headers.
    """
    indexed, pieces, at = [], [], 0
    for block, (rows, are_empty) in zip(one.index.blocks, blocks, strict=True):
        kept = rows
        for name in ("key", "value", "headers"):
            place = SCHEMA.get_field_index(name)
            values = rows.column(place).combine_chunks().filter(pa.array(~are_empty))  # no buffer has the others
            places = pa.array(np.cumsum(~are_empty) - 1, mask=are_empty)
            kept = kept.set_column(place, SCHEMA.field(name), values.take(places))
        piece = _encoded_block(kept)
        indexed.append(msgspec.structs.replace(block, start=at, crc32=zlib.crc32(piece)))
        pieces.append(piece)
        at += len(piece)
    emptied = tuple(len(piece) for piece in pieces)
    text = _encode_index(msgspec.structs.replace(one.index, blocks=tuple(indexed), emptied=emptied))
    return b"".join((MAGIC, len(text).to_bytes(4, "little"), text, *pieces))


def _stored_bytes(index: Index, block: Block) -> int:
    return index.emptied[index.blocks.index(block)] if index.emptied else block.size_bytes


def _cuts(table: pa.Table) -> list[tuple[int, int]]:
    ends = np.cumsum(record_bytes(table.select(BATCH_SCHEMA.names)) + 32)
    cuts, first = [], 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        fits = int(np.searchsorted(ends, before + limits.SCHEDULED_BLOCK_BYTES, side="right"))
        end = min(max(fits, first + 1), first + limits.SCHEDULED_BLOCK_RECORDS)
        cuts.append((first, end))
        first = end
    return cuts


def _encoded_block(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class ScheduledObject:
    """A decoded object: its index, and the bytes that were read with it."""

    key: str
    index: Index
    head: bytes
    """Bytes from the object's first one on."""
    blocks_start: int

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return len(self.head) + 512 + 200 * len(self.index.blocks)

    def read(self, store: ObjectStore, block: Block) -> pa.Table:
        """Read the rows of a block (``SCHEMA``). Blocks. Raises ``CorruptData``, ``StoreUnavailable``."""
        start = self.blocks_start + block.start
        end = start + _stored_bytes(self.index, block)
        try:
            data = self.head[start:end] if end <= len(self.head) else store.get_range(self.key, start, end)
        except ObjectMissing as problem:
            raise CorruptData(f"{self.key} is missing.", object=self.key) from problem
        if zlib.crc32(data) != block.crc32:
            raise CorruptData(f"A block of {self.key} is damaged.", object=self.key)
        try:
            table = pa.ipc.open_stream(pa.BufferReader(data)).read_all().cast(SCHEMA).combine_chunks()
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise CorruptData(f"{self.key} holds no delayed records: {problem}.", object=self.key) from problem
        if table.num_rows != block.row_count:
            raise CorruptData(f"A block of {self.key} has other rows than its index.", object=self.key)
        return table

    def row(self, store: ObjectStore, row: int) -> pa.Table | None:
        """Read one row; return None if there is no such row. Blocks. Raises the same errors as ``read``."""
        for block in self.index.blocks:
            if block.first_row <= row < block.first_row + block.row_count:
                return self.read(store, block).slice(row - block.first_row, 1)
        return None


def open_object(store: ObjectStore, key: str) -> ScheduledObject | None:
    """Read the object without most of its blocks; return None if there is none. Blocks. Raises ``CorruptData``,
    ``StoreUnavailable``."""
    try:
        head = store.get_range(key, 0, _HEAD_BYTES)
        start = 8 + int.from_bytes(head[4:8], "little")
        if head[:4] != MAGIC or start > _INDEX_BYTES_MAX:
            raise CorruptData(f"{key} holds no delayed records.", object=key)
        if start > len(head):
            head = store.get_range(key, 0, start)
    except ObjectMissing:
        return None
    try:
        index = _decode_index(head[8:start])
    except ValueError as problem:
        raise CorruptData(f"The index of {key} can't be read: {problem}.", object=key) from problem
    total = start + (index.blocks[-1].start + _stored_bytes(index, index.blocks[-1]) if index.blocks else 0)
    return ScheduledObject(key, index, head if total <= len(head) else head[:start], start)


def due_times(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the due times of a block's rows, in ms since the epoch."""
    times: npt.NDArray[np.int64] = rows.column("deliver_at").to_numpy().astype(np.int64)
    return times


def next_due(rows: pa.Table, after_ms: int) -> int | None:
    """Return the first due time after ``after_ms`` among the rows; None without one."""
    found: int | None = pc.min(
        rows.column("deliver_at").filter(pc.greater(rows.column("deliver_at"), after_ms))
    ).as_py()
    return found
