"""Protobuf's types without parts: each reads many values at once, and tells what one value of Google's library is.

Columns: ``int32`` and ``int64`` and their kin are integers, ``uint32`` and ``fixed32`` a long, ``uint64`` and ``fixed64`` a
decimal of 20 digits. An enum is the name of its number, the first one of several.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.varints import Int64s, Uint64s
from log_format.schemas.columns.document_values import Refused
from log_format.schemas.columns.protobuf_view import Flags, View
from log_format.schemas.columns.shape import Scalar, Shape, arrow_type

VARINT, FIXED64, LENGTH, GROUP, FIXED32 = 0, 1, 2, 3, 5
"""Types on the wire."""
UINT64: Final = pa.decimal128(20, 0)
Roots = npt.NDArray[np.intp]
Found = tuple[npt.NDArray[Any], Int64s, Flags | None]
"""What is found at some positions: a value of numpy for each (of bytes: their start and length), the positions behind them, and
which are wrong."""


CELLS_PER_BYTE: Final = 16
CELLS_MIN: Final = 1_024
CELLS_MAX: Final = 1_000_000
"""Cells of columns that the lists of a value may have: for each of its bytes, at least, and at most. An item of many columns may
have no bytes, so nothing else bounds the memory of such lists."""


class Budget:
    """How many more cells the lists of one value may have. ``size``: its bytes."""

    def __init__(self, size: int) -> None:
        self.cells = self.most = min(CELLS_MIN + CELLS_PER_BYTE * size, CELLS_MAX)

    def spend(self, cells: int, path: str) -> None:
        """Take cells. Raises ``Refused`` when they are too many."""
        self.cells -= cells
        if self.cells < 0:
            raise Refused(
                path, f"its items take more than {self.most:,} cells of columns, too many for the value's size"
            )


def cells_most(sizes: Int64s) -> Int64s:
    """Return the cells that the lists of values of so many bytes may have."""
    return np.minimum(CELLS_MIN + CELLS_PER_BYTE * sizes, CELLS_MAX)


class Node(ABC):
    """One type. ``wire``: its type on the wire. ``leaves``: number of columns without parts; ``default``: value of an absent
    field without presence."""

    wire: int
    shape: Shape
    leaves = 1
    default: Any = None

    @cached_property
    def type(self) -> pa.DataType:
        """Arrow type of the column."""
        return arrow_type(self.shape)

    @abstractmethod
    def found(self, view: View, at: Int64s, ends: Int64s) -> Found:
        """Read a value at each position in messages that end at ``ends``."""

    @abstractmethod
    def column(self, view: View, values: npt.NDArray[Any], roots: Roots) -> pa.Array:
        """Return the column of what was found; marks values as doubtful by ``roots``."""

    def filled(self, view: View) -> npt.NDArray[Any]:
        """Return the default for each message, as ``found`` has it."""
        return np.zeros(len(view), self._dtype())

    def _dtype(self) -> Any:
        return self.type.to_pandas_dtype()

    @abstractmethod
    def value(self, raw: Any, path: str, budget: Budget) -> Any:
        """Return a value of Google's library as ``pa.array`` takes it. Raises ``Refused``."""


class Varint(Node):
    """An integer from ``low`` to ``high`` in a varint. ``is_signed``: negative ones are as long as the largest."""

    wire = VARINT

    def __init__(self, arrow: pa.DataType, low: int, high: int, *, is_zigzag: bool = False) -> None:
        self.shape = Scalar(arrow)
        self.default = 0
        self.bounds = low, high
        self._low, self._high, self._is_zigzag = low, high, is_zigzag

    def found(self, view: View, at: Int64s, _ends: Int64s) -> Found:
        """Read varints."""
        raw, behind, bad = view.varints(at)
        if self._is_zigzag:
            values = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
        else:
            values = raw.view(np.int64)
        if self._high < 2**63 - 1 and (self._is_zigzag or int(raw.max(initial=0)) > self._high):
            beyond = (values < self._low) | (values > self._high)
            bad = beyond if bad is None else bad | beyond
        return values.astype(self._dtype(), copy=False), behind, bad

    def column(self, _view: View, values: npt.NDArray[Any], _roots: Roots) -> pa.Array:
        """Return the numbers."""
        return pa.array(values)

    def value(self, raw: int, path: str, _budget: Budget) -> Any:
        """Return the number."""
        if not self._low <= raw <= self._high:
            raise Refused(path, f"it must be from {self._low} to {self._high}")
        return raw


class Unsigned(Node):
    """A ``uint64`` or ``fixed64``."""

    shape = Scalar(UINT64)
    default = 0
    bounds = (0, 2**64 - 1)

    def __init__(self, wire: int) -> None:
        self.wire = wire

    def found(self, view: View, at: Int64s, _ends: Int64s) -> Found:
        """Read varints, or 8 bytes."""
        return view.varints(at) if self.wire == VARINT else (view.words[at], at + 8, None)

    def _dtype(self) -> Any:
        return np.uint64

    def column(self, _view: View, values: Uint64s, _roots: Roots) -> pa.Array:
        """Return decimals: 16 bytes, little-endian."""
        number = np.zeros((len(values), 2), "<u8")
        number[:, 0] = values
        return pa.Array.from_buffers(UINT64, len(values), [None, pa.py_buffer(number.reshape(-1))])

    def value(self, raw: int, _path: str, _budget: Budget) -> Any:
        """Return the number."""
        return raw


class Flag(Varint):
    """A ``bool``."""

    def __init__(self) -> None:
        super().__init__(pa.bool_(), 0, 1)
        self.default = False

    def value(self, raw: int, path: str, _budget: Budget) -> Any:
        """Return whether it is 1."""
        if raw not in (0, 1):
            raise Refused(path, "it must be a boolean, 0 or 1")
        return raw == 1


class Fixed(Node):
    """A number of 4 or 8 bytes."""

    def __init__(self, arrow: pa.DataType, layout: str) -> None:
        self.shape = Scalar(arrow)
        self.wire = FIXED32 if layout.endswith("4") else FIXED64
        self.default = arrow.to_pandas_dtype()(0).item()
        self.bounds = (
            (0, 2**32 - 1) if layout == "<u4" else (-(2 ** (arrow.bit_width - 1)), 2 ** (arrow.bit_width - 1) - 1)
        )
        """Least and largest integer."""
        self.is_real = pa.types.is_floating(arrow)
        self.is_single = arrow == pa.float32()
        self._layout = layout

    def found(self, view: View, at: Int64s, _ends: Int64s) -> Found:
        """Read bytes."""
        words = view.words[at]
        if self.wire == FIXED32:
            words = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        return words.view(self._layout).astype(self._dtype(), copy=False), at + (4 if self.wire == FIXED32 else 8), None

    def column(self, _view: View, values: npt.NDArray[Any], _roots: Roots) -> pa.Array:
        """Return the numbers."""
        return pa.array(values)

    def value(self, raw: Any, _path: str, _budget: Budget) -> Any:
        """Return the number."""
        return raw


class Symbol(Node):
    """An ``enum``. ``numbers``: by name, the first of several names of one number is the column's."""

    wire = VARINT

    def __init__(self, numbers: Mapping[str, int]) -> None:
        self.numbers = numbers
        names: dict[int, str] = {}
        for name, number in numbers.items():
            names.setdefault(number, name)
        self.shape = Scalar(pa.string(), tuple(names.values()))
        self._names = names
        self._numbers = np.array(sorted(names), np.int64)
        self._array = pa.array([names[number] for number in sorted(names)], pa.string())
        self.default = names.get(0)

    def found(self, view: View, at: Int64s, _ends: Int64s) -> Found:
        """Read varints; what is found is the index of the number."""
        raw, behind, bad = view.varints(at)
        values = raw.view(np.int64)
        places = np.minimum(np.searchsorted(self._numbers, values), len(self._numbers) - 1)
        unknown = self._numbers[places] != values
        return places, behind, unknown if bad is None else bad | unknown

    def filled(self, view: View) -> npt.NDArray[Any]:
        """Return the index of zero."""
        return np.full(len(view), np.searchsorted(self._numbers, 0))

    def column(self, _view: View, values: npt.NDArray[Any], _roots: Roots) -> pa.Array:
        """Return the names."""
        return pc.take(self._array, pa.array(values), boundscheck=False)

    def value(self, raw: int, path: str, _budget: Budget) -> Any:
        """Return the name."""
        if raw not in self._names:
            shown = ", ".join(f"{name} ({number})" for number, name in list(self._names.items())[:20])
            raise Refused(path, f"its number {raw} is none of the enum: {shown}")
        return self._names[raw]


class Sized(Node):
    """A type whose values have a length before them. What is found are start and length."""

    wire = LENGTH

    def found(self, view: View, at: Int64s, ends: Int64s) -> Found:
        """Read lengths."""
        return view.spans(at, ends)

    def filled(self, view: View) -> npt.NDArray[Any]:
        """Return no bytes, where each message is."""
        return np.stack([view.at, np.zeros(len(view), np.int64)], axis=1)


class Binary(Sized):
    """A ``bytes``."""

    shape = Scalar(pa.binary())
    default = b""

    def column(self, view: View, values: Int64s, _roots: Roots) -> pa.Array:
        """Return the bytes."""
        return view.cursor.gathered(values[:, 0], values[:, 1])

    def value(self, raw: bytes, _path: str, _budget: Budget) -> Any:
        """Return the bytes."""
        return raw


class Text(Sized):
    """A ``string``."""

    shape = Scalar(pa.string())
    default = ""

    def column(self, view: View, values: Int64s, roots: Roots) -> pa.Array:
        """Return the texts."""
        found = view.cursor.gathered(values[:, 0], values[:, 1])
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:
            bad = np.array([not _is_text(value) for value in found.to_pylist()], np.bool_)
            view.doubtful[roots[bad]] = True
            return pc.if_else(pa.array(bad), pa.scalar(b"", pa.binary()), found).cast(pa.string())

    def value(self, raw: bytes, path: str, _budget: Budget) -> Any:
        """Return the text."""
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise Refused(path, "it is not UTF-8") from error


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
