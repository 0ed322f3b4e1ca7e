"""A position in each of many encoded values, and reading at all of them at once: one step over columns for a field of all values.

1. Whatever a length or count claims, nothing beyond its value is read, and memory stays proportional to the values' bytes.
2. A value that can't be decoded is marked as invalid with its first fault, and does not disturb the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records import varints
from log_format.records.varints import Bytes, Int64s

Rows = npt.NDArray[np.intp] | slice
"""Values that have the field: their indices, in order, or all of them."""

ALL: Final = slice(None)
_PADDING: Final = 2 * varints.VARINT_BYTES_MAX
"""Bytes behind the last value: up to two numbers are read before the check whether their value has ended."""


class Fault(NamedTuple):
    """What is wrong with a value. ``path``: the member, "" for the whole. ``what``: what was expected and found.
    ``is_schema_unknown``: the value may be right, by a schema that is not known here."""

    path: str
    what: str
    is_schema_unknown: bool = False


class Cursor:
    """Positions in encoded values.

    Args:
        payloads: the bytes of each value, without nulls.
        skipped: bytes at the start of each value that are not part of it; every value has at least as many.
    """

    def __init__(self, payloads: pa.BinaryArray, skipped: Int64s | int = 0) -> None:
        offsets = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
        first, end = int(offsets[0]), int(offsets[-1])
        body = payloads.buffers()[2]
        self.data: Bytes = np.zeros(end - first + _PADDING, np.uint8)
        if body is not None:
            self.data[: end - first] = np.frombuffer(body, np.uint8)[first:end]
        self.at: Int64s = offsets[:-1].astype(np.int64) - first + skipped
        self.ends: Int64s = offsets[1:].astype(np.int64) - first
        self.faults: dict[int, Fault] = {}
        """Row -> its first fault."""

    def __len__(self) -> int:
        return len(self.at)

    def rows_of(self, rows: Rows) -> npt.NDArray[np.intp]:
        """Return the indices of the rows."""
        return np.arange(len(self), dtype=np.intp) if isinstance(rows, slice) else rows

    def fail(self, rows: Rows, bad: npt.NDArray[np.bool_], path: str, what: str) -> None:
        """Mark those of ``rows`` as invalid for which ``bad`` is true, and move them to their end."""
        failed = self.rows_of(rows)[bad]
        fault = Fault(path, what)
        for row in failed.tolist():
            self.faults.setdefault(row, fault)
        self.at[failed] = self.ends[failed]

    def moved(self, rows: Rows, behind: Int64s, path: str) -> None:
        """Set the positions of the rows; those behind their value's end become invalid."""
        self.at[rows] = behind
        over = behind > self.ends[rows]
        if over.any():
            self.fail(rows, over, path, "the value ends within it")

    def longs(self, rows: Rows, path: str) -> Int64s:
        """Read a zigzag varint of each row; 0 where it is invalid."""
        at = self.at[rows]
        try:
            values, behind = varints.read(self.data, at)
        except varints.Malformed:
            width = np.arange(varints.VARINT_BYTES_MAX)
            bad = (self.data[at[:, None] + width] >= 0x80).all(axis=1)
            self.fail(rows, bad, path, "it is a number of more than 10 bytes")
            zeros = np.where(bad, len(self.data) - varints.VARINT_BYTES_MAX, at)
            values, behind = varints.read(self.data, zeros)
            behind = np.where(bad, self.at[rows], behind)
        self.moved(rows, behind, path)
        return values

    def fixed(self, rows: Rows, size: int, path: str) -> npt.NDArray[np.uint8]:
        """Read ``size`` bytes of each row: shape (rows, ``size``); anything where they are not all there."""
        at = self.at[rows].copy()
        whole = at + size <= self.ends[rows]
        if not whole.all():
            self.fail(rows, ~whole, path, f"the value ends within its {size} bytes")
            at = np.where(whole, at, 0)
        self.at[rows] += np.where(whole, size, 0)
        pieces = np.ndarray((len(self.data) - size + 1,), f"V{size}", self.data, strides=(1,))
        return pieces[at].view(np.uint8).reshape(-1, size)

    def spans(self, rows: Rows, path: str) -> tuple[Int64s, Int64s]:
        """Read a length and as many bytes of each row: return the starts and the lengths of the bytes."""
        lengths = self.longs(rows, path)
        starts = self.at[rows].copy()
        bad = (lengths < 0) | (lengths > self.ends[rows] - starts)
        if bad.any():
            self.fail(rows, bad, path, "its length is not within the value")
            lengths = np.where(bad, 0, lengths)
        self.at[rows] += lengths
        return starts, lengths

    def gathered(self, starts: Int64s, lengths: Int64s) -> pa.BinaryArray:
        """Return the bytes of ascending spans that don't overlap.

        An array over all of the data has the bytes between the spans as elements, too; the wanted ones are taken from it.
        """
        count = len(starts)
        if not count:
            return pa.array([], pa.binary())
        edges = np.empty((count, 2), np.int32)
        edges[:, 0] = starts
        edges[:, 1] = starts + lengths
        buffers = [None, pa.py_buffer(edges.reshape(-1)), pa.py_buffer(self.data)]
        every = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, buffers)
        return pc.take(every, pa.array(np.arange(0, 2 * count, 2)), boundscheck=False)

    def texts(self, rows: Rows, path: str) -> pa.StringArray:
        """Read a length and as many bytes of UTF-8 of each row."""
        starts, lengths = self.spans(rows, path)
        binary = self.gathered(starts, lengths)
        try:
            return binary.cast(pa.string())
        except pa.ArrowInvalid:
            bad = np.array([not _is_text(value) for value in binary.to_pylist()], np.bool_)
            self.fail(rows, bad, path, "it is not UTF-8")
            return pc.if_else(pa.array(bad), pa.scalar(b"", pa.binary()), binary).cast(pa.string())


def spread(values: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Return an array as long as ``present`` with ``values`` in order where it is true, and null elsewhere."""
    if len(values) == len(present):
        return values
    if not len(values):
        return pa.nulls(len(present), values.type)
    return pc.take(values, pa.array(np.cumsum(present) - 1, mask=~present), boundscheck=False)


def struct_of(columns: Sequence[pa.Array], names: Sequence[str], count: int) -> pa.StructArray:
    """Return a struct of ``count`` rows without nulls."""
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    assert all(len(column) == count for column in columns)
    return pa.StructArray.from_arrays(list(columns), fields=fields)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
