"""Records of old segments decoded beyond a reader's request, which most likely is the reader's next request.

A row group is decoded as a whole, though a fetch may want only a few of its records. The rest is kept for a while, so that a
reader of old records asks the store once for each row group and not for each fetch. Memory is bounded; the least recently used
piece is dropped first. The record at an offset never changes, and pieces are kept by the topic's incarnation, so no piece is
ever wrong. But key compaction may have removed some of a piece's records since (``DecodedPiece.path``).

Not thread-safe: used on the event loop only.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.records.size import record_bytes

_PIECES_PER_PARTITION_MAX = 8
"""Number of readers of one partition, at different offsets, that can be served concurrently."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodedPiece:
    """Records of one partition: all that exist in ``[start_offset, end_offset)``."""

    table: pa.Table
    offsets: npt.NDArray[np.int64]
    size_sums: npt.NDArray[np.int64]
    """Bytes of all records before row i (keys, values, headers), for i from 0 to the number of rows."""
    start_offset: int
    end_offset: int
    path: str
    """Path of the segment: while the table has the segment, none of these records was removed."""
    memory_bytes: int
    """Approximate bytes of memory of the piece."""

    @classmethod
    def of(cls, table: pa.Table, start_offset: int, end_offset: int, path: str) -> DecodedPiece:
        """Return the piece of a table of ``RECORD_SCHEMA``, ordered by offset."""
        sums = np.zeros(table.num_rows + 1, np.int64)
        np.cumsum(record_bytes(table), out=sums[1:])
        offsets = table.column("offset").to_numpy()
        memory_bytes = int(table.nbytes) + offsets.nbytes + sums.nbytes + 1024
        return cls(table, offsets, sums, start_offset, end_offset, path, memory_bytes)

    def row_of(self, offset: int) -> int:
        """Return the row of the first record from ``offset`` on."""
        return int(np.searchsorted(self.offsets, offset))


def decoded_piece(table: pa.Table, offset: int, end: int, path: str) -> DecodedPiece:
    """Return the records read of a run, from ``offset`` up to where they are complete; nothing was read from ``end`` on."""
    if table.num_rows:
        after_last = int(table.column("offset")[-1].as_py()) + 1
        # A flush's runs have no gaps, so records missing at the end were cut off. A compacted run may end in a gap; ending
        # earlier is safe.
        end = min(end, after_last)
    return DecodedPiece.of(table, offset, end, path)


def end_of_fitting(
    size_sums: npt.NDArray[np.int64], rows: range, *, records_max: int, bytes_max: int, at_least_one: bool
) -> int:
    """Return the end of the ``rows`` that fit.

    ``size_sums``: bytes of all records before row i; ``at_least_one``: whether the first row fits whatever its size.
    """
    by_size = int(np.searchsorted(size_sums, size_sums[rows.start] + bytes_max, side="right")) - 1
    stop = max(rows.start, min(rows.stop, rows.start + records_max, by_size))
    return rows.start + 1 if at_least_one and rows and stop == rows.start else stop


class ReadAhead:
    """Pieces of at most ``bytes_max`` bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._pieces: OrderedDict[DecodedPiece, tuple[str, int]] = OrderedDict()
        self._by_partition: dict[tuple[str, int], list[DecodedPiece]] = {}

    def add(self, topic_id: str, partition: int, piece: DecodedPiece) -> None:
        """Keep a piece for the next reader at its offset."""
        if piece.memory_bytes > self.bytes_max:
            return
        place = (topic_id, partition)
        pieces = self._by_partition.setdefault(place, [])
        pieces.append(piece)
        self._pieces[piece] = place
        self.size_bytes += piece.memory_bytes
        if len(pieces) > _PIECES_PER_PARTITION_MAX:
            self.drop(pieces[0])
        while self.size_bytes > self.bytes_max:
            self.drop(next(iter(self._pieces)))

    def find(self, topic_id: str, partition: int, offset: int) -> DecodedPiece | None:
        """Return the piece that covers the offset, None if there is none."""
        for piece in self._by_partition.get((topic_id, partition), ()):
            if piece.start_offset <= offset < piece.end_offset:
                self._pieces.move_to_end(piece)
                return piece
        return None

    def drop(self, piece: DecodedPiece) -> None:
        """Drop a piece that is kept here."""
        place = self._pieces.pop(piece)
        self.size_bytes -= piece.memory_bytes
        pieces = self._by_partition[place]
        pieces.remove(piece)
        if not pieces:
            del self._by_partition[place]
