"""Columns that a sender made itself, checked against a shape in bulk: no value is decoded.

A type that the shape does not take, or a member that it does not have, is wrong for all rows (``UnfitType``). Values that would
lose something by the conversion, missing members, and what the shape forbids are faults of their rows.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.canonical_json import DocumentForm
from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.document_values import converted
from log_format.schemas.columns.map_keys import TWICE, repeated_keys
from log_format.schemas.columns.shape import (
    ABSENT,
    DATE_MAX,
    DATE_MIN,
    TIMESTAMP_US_MAX,
    TIMESTAMP_US_MIN,
    ListOf,
    MapOf,
    Member,
    Record,
    Scalar,
    Shape,
    arrow_type,
)

__all__ = ["CELLS_MAX", "UnfitType", "document_form", "fitted", "is_null_written", "spelled"]

CELLS_MAX: Final = 16 * 1024 * 1024
"""Most values of all columns together, unless the columns came with as many bytes: members that are absent take no bytes of
their sender's."""
_EXACT_INTEGER_MAX: Final = {32: 2**24, 64: 2**53}
"""Largest integer up to which all are real numbers of so many bits."""
_WIDE_DIGITS: Final = 76
_YEARS: Final = "it must be of the years 1 to 9999"
_DAY_MS: Final = 86_400_000
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class UnfitType(ValueError):
    """A column that no value of the shape can come from. ``path``: the member; ``what``: the end of a sentence about it."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} {what}" if path else what)
        self.path = path
        self.what = what


def fitted(shape: Shape, values: pa.StructArray) -> tuple[pa.Array, dict[int, Fault]]:
    """Return the column of the shape, and the fault of each row that is not of it, whose row has no meaning.

    Args:
        shape: the shape.
        values: the values, without nulls. Their types are plain: no dictionaries, views, or large types.

    Raises:
        UnfitType: a column's type does not fit.
    """
    fitting = _Fitting()
    cells = len(values) * _leaves(shape)
    if cells > CELLS_MAX and cells > values.nbytes:
        raise UnfitType("", f"has more than {CELLS_MAX:,} values in its columns: send fewer records at once")
    return fitting.part(shape, values, np.arange(len(values)), ""), fitting.faults


def document_form(shape: Shape) -> DocumentForm:
    """Return the form in which columns of the shape are documents of it: null members are left out, unless a document must have
    them."""
    nulls: set[str] = set()
    unions: set[str] = set()
    _add_form(shape, "", nulls, unions)
    return DocumentForm(frozenset(nulls), frozenset(unions))


def _add_form(shape: Shape, path: str, nulls: set[str], unions: set[str]) -> None:
    if isinstance(shape, ListOf):
        _add_form(shape.item, f"{path}[]", nulls, unions)
    elif isinstance(shape, MapOf):
        _add_form(shape.value, f"{path}{{}}", nulls, unions)
    elif isinstance(shape, Record):
        if shape.is_union:
            unions.add(path)
        for member in shape.members:
            where = _within(path, member.name)
            if is_null_written(member):
                nulls.add(where)
            _add_form(member.shape, where, nulls, unions)


def spelled(values: pa.Array) -> pa.Array:
    """Return values that need not fit any shape so that each can be rendered: times as texts, and numbers that are not finite as
    null."""
    arrow = values.type
    if pa.types.is_null(arrow):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_floating(arrow):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, arrow))
    if pa.types.is_timestamp(arrow):
        return pc.binary_join_element_wise(values.view(pa.timestamp(arrow.unit)).cast(pa.string()), "Z", "")
    if pa.types.is_date(arrow):
        return values.cast(pa.string())
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(arrow):
        children = [spelled(child) for child in values.flatten()]
        return pa.StructArray.from_arrays(children, names=[field.name for field in arrow], mask=mask)
    if pa.types.is_map(arrow):
        items = spelled(values.items)
        offsets = pa.array(
            np.asarray(values.offsets), mask=None if mask is None else np.append(np.asarray(mask), False)
        )
        return pa.MapArray.from_arrays(offsets, values.keys, items)
    if pa.types.is_list(arrow):
        return pa.ListArray.from_arrays(values.offsets, spelled(values.values), mask=mask)
    return values


def is_null_written(member: Member) -> bool:
    """Return whether a null member is part of a document: it may be null, and to leave it out is wrong or means its default."""
    return member.is_nullable and (member.is_required or member.default not in (ABSENT, None))


class _Fitting:
    """The faults found so far, by row."""

    def __init__(self) -> None:
        self.faults: dict[int, Fault] = {}

    def part(self, shape: Shape, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        """Return the values in the shape's type. ``rows``: the record of each value."""
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), arrow_type(shape))
        if isinstance(shape, Scalar) and shape.takes_all and values.type.equals(shape.type):
            return values
        if isinstance(shape, Record):
            return self._record(shape, values, rows, path)
        if isinstance(shape, ListOf | MapOf):
            return self._collection(shape, values, rows, path)
        return self._scalar(shape, values, rows, path)

    def _fail(self, rows: Rows, bad: Mask, path: str, what: str) -> None:
        if bad.any():
            fault = Fault(path, what)
            for row in np.unique(rows[bad]).tolist():
                self.faults.setdefault(row, fault)

    def _record(self, shape: Record, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        if not pa.types.is_struct(values.type):
            raise _unfit(path, values, "a struct")
        given = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
        known = {member.name for member in shape.members}
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise UnfitType(_within(path, unknown[:80]), "is not a column of the topic")
        present = _present(values)
        children = []
        for member in shape.members:
            where = _within(path, member.name)
            child = given.get(member.name)
            child = pa.nulls(len(values), pa.null()) if child is None else child
            child = self.part(member.shape, child, rows, where)
            children.append(child if shape.is_union else self._member(member, child, present, rows, where))
        if shape.is_union and children:
            count = sum(_present(child).astype(np.int8) for child in children)
            self._fail(rows, present & (count != 1), path, "exactly one of its members must be set")
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(children, names=[member.name for member in shape.members], mask=mask)

    def _member(self, member: Member, values: pa.Array, present: Mask, rows: Rows, path: str) -> pa.Array:
        """Return a member's values with its default; ``present``: rows that have the record."""
        if not values.null_count or member.is_nullable:
            return values
        if member.default not in (ABSENT, None):
            default = pa.array([converted(member.shape, member.default, path)], values.type)
            places = np.where(_present(values), np.arange(len(values)), len(values))
            return pc.take(pa.concat_arrays([values, default]), pa.array(places))
        if member.is_required:
            self._fail(rows, present & ~_present(values), path, "it is missing")
        return values

    def _collection(self, shape: ListOf | MapOf, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        is_map = isinstance(shape, MapOf)
        if not (pa.types.is_map(values.type) if is_map else pa.types.is_list(values.type)):
            raise _unfit(path, values, "a map" if is_map else "a list")
        offsets = np.asarray(values.offsets)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        lengths = np.diff(offsets)
        within = np.repeat(rows, lengths)
        mask = values.is_null() if values.null_count else None
        where = f"{path}{{}}" if is_map else f"{path}[]"
        item, child = (shape.value, values.items) if isinstance(shape, MapOf) else (shape.item, values.values)
        items = self.part(item, child.slice(first, count), within, where)
        if items.null_count and not shape.has_nulls:
            self._fail(within, ~_present(items), where, "it must not be null")
        places = pa.array(offsets - first, pa.int32())
        if not is_map:
            return pa.ListArray.from_arrays(places, items, type=arrow_type(shape), mask=mask)
        names = self._scalar(Scalar(pa.string()), values.keys.slice(first, count), within, path)
        twice = np.zeros(count, np.bool_)
        twice[repeated_keys(names, np.repeat(np.arange(len(values)), lengths))] = True
        self._fail(within, twice, path, TWICE)
        if mask is not None:
            places = pa.array(offsets - first, pa.int32(), mask=np.append(~_present(values), False))
        return pa.MapArray.from_arrays(places, names, items, type=arrow_type(shape))

    def _scalar(self, shape: Scalar, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        arrow, given = shape.type, values.type
        if pa.types.is_integer(arrow) and pa.types.is_integer(given):
            return self._integers(arrow, values, rows, path)
        if pa.types.is_floating(arrow) and (pa.types.is_floating(given) or pa.types.is_integer(given)):
            return self._reals(arrow, values, rows, path)
        if pa.types.is_decimal(arrow) and (pa.types.is_decimal(given) or pa.types.is_integer(given)):
            return self._decimals(arrow, values, rows, path)
        if pa.types.is_timestamp(arrow) and pa.types.is_timestamp(given):
            return self._timestamps(values, rows, path)
        if pa.types.is_date(arrow) and pa.types.is_date(given):
            return self._dates(values, rows, path)
        if not given.equals(arrow):
            raise _unfit(path, values, str(arrow))
        if shape.symbols is not None:
            known = pc.is_in(values, pa.array(shape.symbols, pa.string())).to_numpy(zero_copy_only=False)
            self._fail(rows, _present(values) & ~known, path, f"it must be one of {', '.join(shape.symbols[:20])}")
        if shape.size is not None:
            wrong = pc.fill_null(pc.not_equal(pc.binary_length(values), shape.size), False)
            self._fail(rows, wrong.to_numpy(zero_copy_only=False), path, f"it must have {shape.size} bytes")
        return values

    def _integers(self, arrow: pa.DataType, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        high = 2 ** (arrow.bit_width - 1) - 1
        what = f"it must be from {-high - 1} to {high}"
        return _cast(self._without(values, _beyond(values, -high - 1, high), rows, path, what), arrow)

    def _reals(self, arrow: pa.DataType, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        if pa.types.is_integer(values.type):
            most = _EXACT_INTEGER_MAX[arrow.bit_width]
            what = "its column can't have all of its digits"
            return self._without(values, _beyond(values, -most, most), rows, path, what).cast(arrow)
        if values.null_count or not np.isfinite(values.to_numpy()).all():
            values = self._without(values, pc.invert(pc.is_finite(values)), rows, path, "it must be a finite number")
        found = _cast(values, arrow)
        if arrow.bit_width < values.type.bit_width:
            lossy = pc.not_equal(found.cast(values.type), values)
            found = self._without(found, lossy, rows, path, "its column can't have all of its digits")
        return found

    def _decimals(self, arrow: pa.DataType, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        given_scale = values.type.scale if pa.types.is_decimal(values.type) else 0
        wide = pa.decimal256(_WIDE_DIGITS, max(arrow.scale, given_scale))
        numbers = values.cast(wide)
        digits = arrow.precision - arrow.scale
        too_large = pc.greater_equal(pc.abs(numbers), pa.scalar(Decimal(10) ** digits, wide))
        wrong = pc.or_(too_large, pc.not_equal(pc.round(numbers, arrow.scale, round_mode="towards_zero"), numbers))
        what = f"it must have at most {digits} digits before the point and {arrow.scale} behind it"
        return self._without(numbers, wrong, rows, path, what).cast(arrow)

    def _timestamps(self, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        numbers, unit = values.view(pa.int64()), values.type.unit
        if unit == "ns":
            whole = pc.divide(numbers, 1000)
            lossy = pc.not_equal(pc.multiply(whole, 1000), numbers)
            return self._without(whole, lossy, rows, path, "it has parts of a microsecond").view(TIMESTAMP)
        factor = _MICROSECONDS[unit]
        wrong = _beyond(numbers, -(-TIMESTAMP_US_MIN // factor), TIMESTAMP_US_MAX // factor)
        numbers = self._without(numbers, wrong, rows, path, _YEARS)
        return (numbers if factor == 1 else pc.multiply(numbers, factor)).view(TIMESTAMP)

    def _dates(self, values: pa.Array, rows: Rows, path: str) -> pa.Array:
        is_64 = pa.types.is_date64(values.type)
        numbers = pc.divide(values.view(pa.int64()), _DAY_MS) if is_64 else values.view(pa.int32())
        wrong = _beyond(numbers, DATE_MIN, DATE_MAX)
        return self._without(numbers, wrong, rows, path, _YEARS).cast(pa.int32()).view(pa.date32())

    def _without(self, values: pa.Array, wrong: pa.BooleanArray | None, rows: Rows, path: str, what: str) -> pa.Array:
        """Return the values with null for the wrong ones (None: none is), which are noted."""
        if wrong is None:
            return values
        wrong = pc.fill_null(wrong, False)
        if not pc.any(wrong).as_py():
            return values
        self._fail(rows, wrong.to_numpy(zero_copy_only=False), path, what)
        return pc.if_else(wrong, pa.scalar(None, values.type), values)


def _beyond(values: pa.Array, low: int, high: int) -> pa.BooleanArray | None:
    """Return which integers are outside ``[low, high]``, of which the type may only have a part; None if none is."""
    width, is_signed = values.type.bit_width, pa.types.is_signed_integer(values.type)
    least, most = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if is_signed else (0, 2**width - 1)
    if least >= low and most <= high:
        return None
    present = (values.drop_null() if values.null_count else values).to_numpy()
    if not len(present) or (int(present.min()) >= low and int(present.max()) <= high):
        return None
    wrong = pa.repeat(False, len(values))
    if least < low:
        wrong = pc.or_(wrong, pc.less(values, pa.scalar(low, values.type)))
    if most > high:
        wrong = pc.or_(wrong, pc.greater(values, pa.scalar(high, values.type)))
    return wrong


def _cast(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    return values if values.type.equals(arrow) else values.cast(arrow)


def _present(values: pa.Array) -> Mask:
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    found: Mask = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _unfit(path: str, values: pa.Array, wanted: str) -> UnfitType:
    return UnfitType(path, f"must be {wanted}, not {str(values.type)[:100]}")


def _within(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _leaves(shape: Shape) -> int:
    if isinstance(shape, Record):
        return sum(_leaves(member.shape) for member in shape.members)
    return 1
