"""The Parquet object of a checkpoint, with tombstones in row groups of their own.

A topic that is merged all the time has many times more tombstones than segments, and loading the state needs no tombstones. So
tombstones come last, and the file's metadata says where they begin. Another program's checkpoint is read as a whole. (Parquet's
statistics would show where tombstones begin, too; but damaged statistics crash pyarrow's process.)
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from log_format.delta.checkpoint_schema import SCHEMA, check_required, conforming
from log_format.errors import DECODE_ERRORS

TOMBSTONES_KEY: Final = b"tidelog.tombstones"
"""Metadata key; its value is JSON: the number of the first row group of tombstones, and the number of rows before that. Only
tombstones follow."""
_HEAD: Final = ("txn", "metaData", "protocol", "add.modificationTime")
_HEAD_FIELDS: Final = (
    *(SCHEMA.field(name) for name in ("txn", "metaData", "protocol")),
    pa.field("add", pa.struct([("modificationTime", pa.int64())])),
)
PIECE_BYTES: Final = 2 * 1024 * 1024
"""Approximate number of bytes decoded as one piece."""
LARGE_BYTES: Final = 1024 * 1024
"""Size in bytes from which a checkpoint is large: that of some 30,000 segments."""
_LARGE: Final = threading.Lock()
_GROUP_BYTES: Final = 8 * 1024 * 1024
"""Approximate number of bytes encoded as one row group. Each row group costs a few KiB in the object's footer."""
_ROWS_MAX: Final = 16_384
"""Most rows in a piece: larger pieces are not faster."""
_SMALL_ROWS: Final = 500
"""Number of rows below which a row group is encoded without dictionaries, and by a codec that needs no preparation: these would
take half of the time, and make the object no smaller."""
_decode_note: Final = msgspec.json.Decoder(tuple[int, int]).decode


@contextmanager
def large_checkpoint_lock(size_bytes: int) -> Iterator[None]:
    """Hold a lock for work on a large checkpoint, so that only one thread at a time uses that much memory."""
    if size_bytes < LARGE_BYTES:
        yield
        return
    with _LARGE:
        yield


def encode_checkpoint_pieces(pieces: Iterable[pa.Table], metadata: Mapping[bytes, bytes]) -> tuple[bytes, int]:
    """Encode a checkpoint; return its bytes and number of rows. No piece may mix tombstones with other rows."""
    sink = pa.BufferOutputStream()
    row_count, group_count, tombstones = 0, 0, [0, 0]
    groups = _row_groups(pieces)
    first = next(groups, None)
    is_small = first is None or first.num_rows < _SMALL_ROWS
    encoding = {"compression": "snappy", "use_dictionary": False} if is_small else {"compression": "zstd"}
    with pq.ParquetWriter(sink, SCHEMA, store_schema=False, write_page_checksum=True, **encoding) as writer:
        for group in chain(() if first is None else (first,), groups):
            writer.write_table(group)
            row_count += group.num_rows
            group_count += 1
            if group.column("remove").null_count:
                tombstones = [group_count, row_count]
        # Without the Arrow schema pyarrow leaves out the table's own metadata, too.
        writer.add_key_value_metadata({**metadata, TOMBSTONES_KEY: msgspec.json.encode(tombstones)})
    data: bytes = sink.getvalue().to_pybytes()
    return data, row_count


def _row_groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Join the pieces into row groups of limited size, each with tombstones only or without any."""
    group: list[pa.Table] = []
    size, are_tombstones = 0, False
    for piece in pieces:
        if not piece.num_rows:
            continue
        is_other = are_tombstones != (piece.column("remove").null_count == 0)
        if group and (is_other or size >= _GROUP_BYTES):
            yield pa.concat_tables(group)
            group, size = [], 0
        are_tombstones = piece.column("remove").null_count == 0
        group.append(piece.replace_schema_metadata(None))
        size += piece.nbytes
    if group:
        yield pa.concat_tables(group)


def is_own_checkpoint(data: bytes) -> bool:
    """Return whether Tidelog wrote the checkpoint, or it can't be read; others' checkpoints include foreign commits. Never
    raises."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(data)).metadata or {}
    except (pa.ArrowException, OSError):
        return True
    return any(key.startswith(b"tidelog.") for key in metadata)


def decode_checkpoint_file(data: bytes, *, with_tombstones: bool) -> pa.Table:
    """Return the object's rows and metadata as stored; tombstones in row groups of their own only if ``with_tombstones``.

    Raises ``pa.ArrowException`` and ``OSError`` if the object can't be read.
    """
    return CheckpointFile(data).read(None, with_tombstones=with_tombstones)


class CheckpointFile:
    """A checkpoint's object with only its footer decoded. Every method raises ``pa.ArrowException`` and ``OSError``."""

    def __init__(self, data: bytes) -> None:
        self.size_bytes = len(data)
        self._file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)

    def read(self, columns: Sequence[str] | None, *, with_tombstones: bool) -> pa.Table:
        """Return all rows of these columns (such as ``add.path``; None: all) as one table, with the object's metadata."""
        table: pa.Table = self._file.read_row_groups(self._groups(with_tombstones), columns=columns, use_threads=False)
        return table

    def head(self) -> pa.Table:
        """Return the rows of ``txn``, ``metaData`` and ``protocol``, with the object's metadata.

        One ``add`` row is among them, with nothing but the largest ``modificationTime``. Also raises ``ValueError`` if something
        is missing.
        """
        found = []
        for piece in self.pieces(_HEAD, with_tombstones=False):
            table = conforming(piece, _HEAD_FIELDS)
            is_head = pc.or_(*(pc.is_valid(table.column(name)) for name in ("txn", "metaData")))
            found.append(table.filter(pc.or_(is_head, pc.is_valid(table.column("protocol")))))
            times = pc.struct_field(table.column("add"), "modificationTime")
            newest = pc.index(times, pc.max(times)).as_py()
            found.append(table.slice(max(0, newest), 1 if newest >= 0 else 0))
        table = pa.concat_tables([pa.schema(_HEAD_FIELDS).empty_table(), *found])
        check_required(table.select(["txn", "metaData"]))
        return table.replace_schema_metadata(self._file.schema_arrow.metadata)

    def pieces(self, columns: Sequence[str], *, with_tombstones: bool) -> Iterator[pa.Table]:
        """Yield the rows of these columns in pieces; a piece is about ``PIECE_BYTES`` of all columns. Also raises
        ``ValueError``."""
        for number in self._groups(with_tombstones):
            group = self._file.metadata.row_group(number)
            count = max(1, min(_ROWS_MAX, group.num_rows * PIECE_BYTES // max(1, group.total_byte_size)))
            for batch in self._file.iter_batches(count, row_groups=[number], columns=columns, use_threads=False):
                yield pa.Table.from_batches([batch])

    def _groups(self, with_tombstones: bool) -> list[int]:
        metadata = self._file.metadata
        groups = list(range(metadata.num_row_groups))
        text = (self._file.schema_arrow.metadata or {}).get(TOMBSTONES_KEY)
        if text is None or with_tombstones:
            return groups
        try:
            first, row_count = _decode_note(text)
        except DECODE_ERRORS as problem:
            raise ValueError(f"its note of where tombstones begin is damaged: {problem}") from problem
        wanted = groups[: max(0, first)]
        if sum(metadata.row_group(group).num_rows for group in wanted) != row_count:
            raise ValueError("its tombstones do not begin where its note says")
        return wanted
