"""The segments of a manifest as rows of columns: some 50 bytes each, instead of objects.

For a path that Tidelog chose (``layout.segment_path`` or ``compacted_path`` of a UUID) a row has the UUID's 16 bytes and a kind.
A segment with another path, or with numbers too large for the columns, is kept as an object in a dictionary. A hash table of row
numbers (open addressing) finds a path. So adding a segment costs O(1), amortized.

Rows are numbered in the order in which they joined. A removed segment's number stays until ``renumber_if_crowded`` closes the
gaps; callers that keep row numbers must then renumber them. Not thread-safe.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from log_format.layout import COMPACTED, SEGMENTS
from log_format.segments.run import SegmentRef

ROW_BYTES: Final = 50
"""Memory of a row in bytes: 29 in the columns, and spare capacity of columns, row table and allocator
(``benchmarks manifests``)."""
ODD_BYTES: Final = 480
"""Memory in bytes of a segment kept as an object: its reference with a usual path, and two dictionary entries: measured."""

_PATH: Final = re.compile(
    rf"(?:({SEGMENTS})|{COMPACTED})"
    r"(?:([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})|([0-9a-f]{32}))\.parquet"
)
_PREFIXES: Final = (SEGMENTS, COMPACTED)
DASHED: Final = 2
"""Bit of a kind: the UUID is written with dashes. The lowest bit is the path's prefix."""
_ODD: Final = 254
_GONE: Final = 255
_UINT32_MAX: Final = 2**32 - 1
_UINT64_MAX: Final = 2**64 - 1
_MIXER: Final = 0x9E3779B97F4A7C15
"""2**64 / golden ratio: spreads neighbouring numbers (Knuth, multiplicative hashing)."""
_SLOTS_MIN: Final = 8
_GONE_MIN: Final = 64
"""Number of gaps below which closing them does not pay."""

_UNINDEXED_MAX: Final = 4
"""Number of rows up to which a search is linear, without a hash table: most topics have no more."""
_NO_SLOTS: Final = array("I")
_NO_ODD: Final[dict[int, SegmentRef]] = {}
_NO_ODD_ROWS: Final[dict[str, int]] = {}
"""Empty containers that all objects share until they have an entry."""

Rows = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumns:
    """Segments with paths of the usual form, as columns of the same length; ``high`` and ``low`` are the halves of the UUID."""

    kinds: npt.NDArray[np.uint8]
    high: npt.NDArray[np.uint64]
    low: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint32]
    footer_sizes: npt.NDArray[np.uint32]
    footer_crc32s: npt.NDArray[np.uint32]


class SegmentRows:
    """The columns. A row number is an ``int`` from 0 on."""

    __slots__ = ("_crcs", "_footers", "_gone", "_high", "_kinds", "_low", "_odd", "_odd_rows", "_sizes", "_slots")

    def __init__(self) -> None:
        self._kinds = array("B")
        self._high = array("Q")
        self._low = array("Q")
        self._sizes = array("I")
        self._footers = array("I")
        self._crcs = array("I")
        self._slots = _NO_SLOTS
        """Hash table of row numbers + 1; 0 for a free slot. At most two thirds are taken. Empty for a few rows."""
        self._odd: dict[int, SegmentRef] = _NO_ODD
        self._odd_rows: dict[str, int] = _NO_ODD_ROWS
        self._gone = 0

    def __len__(self) -> int:
        return len(self._kinds) - self._gone

    @property
    def row_count(self) -> int:
        """Number of row numbers in use, including those of removed segments."""
        return len(self._kinds)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return ROW_BYTES * len(self._kinds) + ODD_BYTES * len(self._odd)

    def find(self, path: str) -> int | None:
        """Return the row of the segment with this path; None without one."""
        key = _key(path)
        if key is None or self._odd_rows:
            row = self._odd_rows.get(path)
            if row is not None or key is None:
                return row
        if not self._slots:
            known = zip(self._kinds, self._high, self._low, strict=True)
            return next((row for row, values in enumerate(known) if values == key), None)
        slot = _hash(key[1], key[2]) & (len(self._slots) - 1)
        while taken := self._slots[slot]:
            row = taken - 1
            if (self._kinds[row], self._high[row], self._low[row]) == key:
                return row
            slot = (slot + 1) & (len(self._slots) - 1)
        return None

    def append(self, segment: SegmentRef) -> int | None:
        """Add a segment and return its row; None if its path is listed already."""
        if self.find(segment.path) is not None:
            return None
        row = len(self._kinds)
        key = _key(segment.path)
        footer_size = segment.size_bytes - segment.footer_start
        fits = 0 <= footer_size <= segment.size_bytes <= _UINT32_MAX and segment.footer_crc32 <= _UINT32_MAX
        if key is None or not fits:
            if not self._odd:
                self._odd, self._odd_rows = {}, {}
            self._odd[row] = segment
            self._odd_rows[segment.path] = row
            values = (_ODD, 0, 0, 0, 0, 0)
        else:
            values = (*key, segment.size_bytes, footer_size, segment.footer_crc32)
        for column, value in zip(self._columns(), values, strict=True):
            column.append(value)
        if row in self._odd or (not self._slots and row < _UNINDEXED_MAX):
            return row
        if not self._is_crowded():
            self._index(row)
        else:
            self._index_from(row)
        return row

    def extend(self, segments: SegmentColumns) -> int | None:
        """Add segments in consecutive rows and return the first; None, adding nothing, if a path is listed already or comes
        twice."""
        first = len(self._kinds)
        columns: tuple[npt.NDArray[Any], ...] = (
            segments.kinds, segments.high, segments.low, segments.sizes, segments.footer_sizes, segments.footer_crc32s,
        )  # fmt: skip
        for column, values in zip(self._columns(), columns, strict=True):
            column.frombytes(values.tobytes())
        if self._index_from(first):
            return first
        for column in self._columns():
            del column[first:]
        self._slots = array("I")
        self._index_from(0)
        return None

    def remove(self, path: str) -> int | None:
        """Remove a segment and return the row that it had; None if it was not listed."""
        row = self.find(path)
        if row is None:
            return None
        self._kinds[row] = _GONE
        self._gone += 1
        if (odd := self._odd.pop(row, None)) is not None:
            del self._odd_rows[odd.path]
        return row

    def gone(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether its segment was removed."""
        is_gone: npt.NDArray[np.bool_] = np.asarray(self._kinds) == _GONE
        return is_gone

    def segment(self, row: int) -> SegmentRef:
        """Return the segment of a row."""
        size_bytes = self._sizes[row]
        return self._odd.get(row) or SegmentRef(
            self.path(row), size_bytes, size_bytes - self._footers[row], self._crcs[row]
        )

    def path(self, row: int) -> str:
        """Return the path of a row's segment."""
        kind = self._kinds[row]
        if kind == _ODD:
            return self._odd[row].path
        unique = f"{self._high[row]:016x}{self._low[row]:016x}"
        if kind & DASHED:
            unique = f"{unique[:8]}-{unique[8:12]}-{unique[12:16]}-{unique[16:20]}-{unique[20:]}"
        return f"{_PREFIXES[kind & 1]}{unique}.parquet"

    def __iter__(self) -> Iterator[SegmentRef]:
        """Return an iterator over the listed segments, in the order in which they joined."""
        return (self.segment(row) for row, kind in enumerate(self._kinds) if kind != _GONE)

    def renumber_if_crowded(self) -> Rows | None:
        """Close the gaps if there are many, and return each row's new number; None if nothing changed. Amortized O(1) per
        removal."""
        if self._gone * 4 < len(self._kinds) or self._gone < _GONE_MIN:
            return None
        stays = ~self.gone()
        numbers: Rows = np.cumsum(stays, dtype=np.uint32) - np.uint32(1)
        for name in ("_kinds", "_high", "_low", "_sizes", "_footers", "_crcs"):
            setattr(self, name, select_rows(getattr(self, name), stays))
        self._odd = {int(numbers[row]): segment for row, segment in self._odd.items()} if self._odd else _NO_ODD
        self._odd_rows = {segment.path: row for row, segment in self._odd.items()} if self._odd else _NO_ODD_ROWS
        self._gone = 0
        self._slots = array("I")
        self._index_from(0)
        return numbers

    def _columns(self) -> tuple[array[int], ...]:
        return (self._kinds, self._high, self._low, self._sizes, self._footers, self._crcs)

    def _is_crowded(self) -> bool:
        return len(self._kinds) * 3 >= len(self._slots) * 2

    def _index(self, row: int) -> None:
        slot = _hash(self._high[row], self._low[row]) & (len(self._slots) - 1)
        while self._slots[slot]:
            slot = (slot + 1) & (len(self._slots) - 1)
        self._slots[slot] = row + 1

    def _index_from(self, first: int) -> bool:
        """Enter the rows from ``first`` on into the hash table, growing it if needed; return False if two rows have the same
        path."""
        if self._is_crowded():
            count = _SLOTS_MIN
            while count * 2 < len(self._kinds) * 3:
                count *= 2
            self._slots, first = array("I", bytes(4 * count)), 0
        slots = np.asarray(self._slots)
        kinds, highs, lows = (np.asarray(column) for column in (self._kinds, self._high, self._low))
        rows = first + np.flatnonzero(kinds[first:] < _ODD)
        mixed = (lows[rows] ^ (highs[rows] * np.uint64(_MIXER))) * np.uint64(_MIXER)
        wanted = (mixed >> np.uint64(32)).astype(np.int64) & (len(slots) - 1)
        while len(rows):
            free = slots[wanted] == 0
            slots[wanted[free]] = rows[free] + 1  # of rows that hash to the same slot the last one gets it
            others = slots[wanted].astype(np.int64) - 1
            waits = others != rows
            rows, others, wanted = rows[waits], others[waits], wanted[waits]
            if np.any((highs[rows] == highs[others]) & (lows[rows] == lows[others]) & (kinds[rows] == kinds[others])):
                return False
            wanted = (wanted + 1) & (len(slots) - 1)
        return True


def select_rows(column: array[int], which: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> array[int]:
    """Return the values of a column where a mask is true, or at these indices."""
    kept = array(column.typecode)
    kept.frombytes(np.asarray(column)[which].tobytes())
    return kept


def _key(path: str) -> tuple[int, int, int] | None:
    """Return kind and the UUID's halves; None for a path that is not of the usual form."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    prefix, *dashed, plain = match.groups()
    digits = plain or "".join(dashed)
    kind = (0 if prefix else 1) | (0 if plain else DASHED)
    return kind, int(digits[:16], 16), int(digits[16:], 16)


def _hash(high: int, low: int) -> int:
    return ((((low ^ (high * _MIXER)) & _UINT64_MAX) * _MIXER) & _UINT64_MAX) >> 32
