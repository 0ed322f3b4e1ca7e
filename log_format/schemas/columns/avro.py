"""Avro: a schema as a tree of readers, and the column of many binary values.

Each reader reads one field of all values at once (``cursor``). Items of arrays and maps
take a step each, over all values that have so many.

Columns: ``int`` and ``long``, ``float`` and ``double``, ``boolean``, string (also enums and uuid), binary (``bytes``, ``fixed``),
decimal (38 digits where the schema says more), date, timestamp (of ms and µs). Times of day, nanoseconds and local timestamps are
the integers that Avro stores. A union of a type with null is that type; any other union is a struct with a member for each type,
of which one is set.

Source: Apache Avro 1.12, Specification, "Binary Encoding", "Logical Types".
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from decimal import Context, Decimal
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records import varints
from log_format.schemas.columns.cursor import Cursor, Fault, Rows
from log_format.schemas.columns.shape import DECIMAL_DIGITS_MAX, Scalar, Shape, arrow_type

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_DECIMALS: Final = Context(prec=2 * DECIMAL_DIGITS_MAX)


class Undecodable(Exception):
    """One value that can't be decoded."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(what)
        self.fault = Fault(path, what)


class Reader(ABC):
    """Reader of one type. ``bytes_min``: least bytes of a value. ``leaves``: number of columns without parts."""

    shape: Shape
    bytes_min = 1
    leaves = 1

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the column."""
        return arrow_type(self.shape)

    @abstractmethod
    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read a value of each row; anything for rows that become invalid."""

    @abstractmethod
    def one(self, raw: bytes, at: int, path: str) -> tuple[Any, int]:
        """Read one value: return it as ``pa.array`` takes it, and the position behind it. Raises ``Undecodable``."""


class Number(Reader):
    """An ``int`` or ``long`` from ``low`` to ``high``, times ``factor`` in its column."""

    def __init__(self, arrow: pa.DataType, low: int, high: int, factor: int = 1) -> None:
        self.shape = Scalar(arrow)
        self._low, self._high, self._factor = low, high, factor

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read varints."""
        values = cursor.longs(rows, path)
        if self._low > INT64_MIN or self._high < INT64_MAX:
            bad = (values < self._low) | (values > self._high)
            if bad.any():
                cursor.fail(rows, bad, path, self._range())
                values = np.where(bad, 0, values)
        if self._factor != 1:
            values = values * self._factor
        arrow = self.shape.type  # type: ignore[union-attr]
        if arrow.bit_width == 32:
            return pa.array(values.astype(np.int32)).view(arrow)
        return pa.array(values).view(arrow)

    def one(self, raw: bytes, at: int, path: str) -> tuple[int, int]:
        """Read a varint."""
        value, behind = long_at(raw, at, path)
        if not self._low <= value <= self._high:
            raise Undecodable(path, self._range())
        return value * self._factor, behind

    def _range(self) -> str:
        return f"it must be from {self._low} to {self._high}"


class Real(Reader):
    """A ``float`` or ``double``."""

    def __init__(self, arrow: pa.DataType) -> None:
        self.shape = Scalar(arrow)
        self._size = arrow.bit_width // 8
        self.bytes_min = self._size
        self._dtype = f"<f{self._size}"
        self._layout = "<f" if self._size == 4 else "<d"

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read bytes of IEEE 754."""
        found = cursor.fixed(rows, self._size, path)
        return pa.array(np.ascontiguousarray(found).view(self._dtype).reshape(-1))

    def one(self, raw: bytes, at: int, path: str) -> tuple[float, int]:
        """Read bytes of IEEE 754."""
        taken, behind = _taken(raw, at, self._size, path)
        return struct.unpack(self._layout, taken)[0], behind


class Flag(Reader):
    """A ``boolean``."""

    shape = Scalar(pa.bool_())

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read a byte, 0 or 1."""
        found = cursor.fixed(rows, 1, path).reshape(-1)
        bad = found > 1
        if bad.any():
            cursor.fail(rows, bad, path, "it must be a boolean, a byte 0 or 1")
        return pa.array(found == 1)

    def one(self, raw: bytes, at: int, path: str) -> tuple[bool, int]:
        """Read a byte, 0 or 1."""
        taken, behind = _taken(raw, at, 1, path)
        if taken[0] > 1:
            raise Undecodable(path, "it must be a boolean, a byte 0 or 1")
        return taken == b"\x01", behind


class Text(Reader):
    """A ``string``."""

    shape = Scalar(pa.string())

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read a length and UTF-8."""
        return cursor.texts(rows, path)

    def one(self, raw: bytes, at: int, path: str) -> tuple[str, int]:
        """Read a length and UTF-8."""
        taken, behind = _sized(raw, at, path)
        try:
            return taken.decode(), behind
        except UnicodeDecodeError as error:
            raise Undecodable(path, "it is not UTF-8") from error


class Bytes(Reader):
    """A ``bytes``, or a ``fixed`` of ``size`` bytes."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self.shape = Scalar(pa.binary(), size=size)
        self.bytes_min = 1 if size is None else size

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read bytes."""
        return cursor.gathered(*self.spans(cursor, rows, path))

    def spans(self, cursor: Cursor, rows: Rows, path: str) -> tuple[varints.Int64s, varints.Int64s]:
        """Read bytes: return their starts and lengths."""
        if self._size is None:
            return cursor.spans(rows, path)
        starts = cursor.at[rows].copy()
        cursor.moved(rows, starts + self._size, path)
        return starts, np.minimum(np.full(len(starts), self._size), cursor.ends[rows] - starts)

    def one(self, raw: bytes, at: int, path: str) -> tuple[bytes, int]:
        """Read bytes."""
        return _sized(raw, at, path) if self._size is None else _taken(raw, at, self._size, path)


class Symbol(Reader):
    """An ``enum``."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self.shape = Scalar(pa.string(), symbols)
        self._symbols = symbols
        self._array = pa.array(symbols, pa.string())

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read the number of a symbol."""
        values = cursor.longs(rows, path)
        bad = (values < 0) | (values >= len(self._symbols))
        if bad.any():
            cursor.fail(rows, bad, path, f"it must be the number of a symbol, 0 to {len(self._symbols) - 1}")
            values = np.where(bad, 0, values)
        return pc.take(self._array, pa.array(values), boundscheck=False)

    def one(self, raw: bytes, at: int, path: str) -> tuple[str, int]:
        """Read the number of a symbol."""
        value, behind = long_at(raw, at, path)
        if not 0 <= value < len(self._symbols):
            raise Undecodable(path, f"it must be the number of a symbol, 0 to {len(self._symbols) - 1}")
        return self._symbols[value], behind


class Exact(Reader):
    """A ``decimal``: a big-endian number of any length in ``bytes``, or of the length of a ``fixed``."""

    def __init__(self, precision: int, scale: int, size: int | None = None) -> None:
        self.shape = Scalar(pa.decimal128(precision, scale))
        self._scale = scale
        self._limit = 10**precision
        self._bytes = Bytes(size)
        self.bytes_min = self._bytes.bytes_min
        self._what = f"it must be a decimal of at most {precision} digits"

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read bytes, and make them numbers of 16 bytes, little-endian."""
        starts, lengths = self._bytes.spans(cursor, rows, path)
        high_byte = cursor.data[np.where(lengths > 0, starts, len(cursor.data) - 1)]
        fill = np.where(high_byte >= 0x80, np.uint8(0xFF), np.uint8(0))
        number = np.empty((len(starts), 16), np.uint8)
        for index in range(16):
            at = starts + lengths - 1 - index
            number[:, index] = np.where(index < lengths, cursor.data[np.maximum(at, 0)], fill)
        bad = np.zeros(len(starts), np.bool_)
        for row in np.flatnonzero((lengths > 16) | self._may_be_large(number)).tolist():
            start, length = int(starts[row]), int(lengths[row])
            value = int.from_bytes(cursor.data[start : start + length].tobytes(), "big", signed=True)
            bad[row] = abs(value) >= self._limit
            if not bad[row]:
                number[row] = np.frombuffer(value.to_bytes(16, "little", signed=True), np.uint8)
        if bad.any():
            cursor.fail(rows, bad, path, self._what)
            number[bad] = 0
        arrow = self.shape.type  # type: ignore[union-attr]
        return pa.Array.from_buffers(arrow, len(starts), [None, pa.py_buffer(number.reshape(-1))])

    def _may_be_large(self, number: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Return which numbers may have too many digits, by their high half."""
        halves = number.view("<i8")
        low_limit = min(self._limit, INT64_MAX)
        in_low: npt.NDArray[np.bool_] = (halves[:, 1] == halves[:, 0] >> 63) & (np.abs(halves[:, 0]) < low_limit)
        return ~in_low

    def one(self, raw: bytes, at: int, path: str) -> tuple[Decimal, int]:
        """Read bytes."""
        taken, behind = self._bytes.one(raw, at, path)
        value = int.from_bytes(taken, "big", signed=True)
        if abs(value) >= self._limit:
            raise Undecodable(path, self._what)
        return _DECIMALS.scaleb(Decimal(value), -self._scale), behind


def long_at(raw: bytes, at: int, path: str) -> tuple[int, int]:
    """Read a zigzag varint at a position: return it and the position behind it. Raises ``Undecodable``."""
    try:
        value, at = varints.read_one(raw, at)
    except (IndexError, varints.Malformed):
        _fail(path, "the value ends within a number, or the number has more than 10 bytes")
    return value, at


def _taken(raw: bytes, at: int, size: int, path: str) -> tuple[bytes, int]:
    taken = raw[at : at + size]
    if len(taken) < size:
        _fail(path, f"the value ends within its {size} bytes")
    return taken, at + size


def _sized(raw: bytes, at: int, path: str) -> tuple[bytes, int]:
    size, at = long_at(raw, at, path)
    if not 0 <= size <= len(raw) - at:
        _fail(path, "its length is not within the value")
    return raw[at : at + size], at + size


def _fail(path: str, what: str) -> NoReturn:
    raise Undecodable(path, what)
