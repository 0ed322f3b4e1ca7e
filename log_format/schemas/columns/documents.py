"""JSON documents of a shape as a column: all at once.

Documents are parsed in bulk by Arrow where the shape allows it, else one by one. Both ways take and refuse the same documents:
what the bulk can't judge (an explicit null, a missing member), and each document of a bulk that fails, is judged alone
(``document_values``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from log_format.schemas.columns.cursor import Fault
from log_format.schemas.columns.document_texts import (
    has_decimals,
    has_its_digits,
    has_odd_number,
    parsed_type,
    with_times,
)
from log_format.schemas.columns.document_values import Refused, converted, parsed, plain
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

__all__ = ["Documents", "Refused"]

Check = Callable[[Any], Fault | None]
"""A further check of a parsed document."""

_BLOCK_BYTES_MIN: Final = 64 * 1024
_BULK_MIN: Final = 16
"""Number of documents below which Arrow's set-up costs more than to judge each alone."""


class Documents:
    """Reader of documents of one shape.

    Args:
        shape: the shape.
        check: applied to each document besides the shape; None: there is none.
        document_bytes_max: size of the largest document that ``check`` is applied to; larger ones are refused. None: any.
        bulk_min: number of documents from which they are parsed in bulk.
    """

    def __init__(
        self,
        shape: Shape,
        check: Check | None = None,
        *,
        document_bytes_max: int | None = None,
        bulk_min: int = _BULK_MIN,
    ) -> None:
        self._bulk_min = bulk_min
        self._bytes_max = document_bytes_max
        self.shape = shape
        self._check = check
        self.type = arrow_type(shape)
        self._in_bulk = isinstance(shape, Record) and _in_bulk(shape)
        is_closed = isinstance(shape, Record) and _is_closed(shape)
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema(list(parsed_type(self.type))) if self._in_bulk else None,
            unexpected_field_behavior="error" if is_closed else "ignore",
            newlines_in_values=False,
        )
        self._is_closed = is_closed
        self._has_decimals = has_decimals(self.type)

    def column_of(self, texts: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column of the documents, and the fault of each that is refused, whose row is null.

        ``texts``: the documents in UTF-8, without nulls.
        """
        if self._check is not None or len(texts) < self._bulk_min:
            return self._one_by_one(texts)
        found = self.together(texts)
        if found is None:
            return self._one_by_one(texts)
        column, doubtful = found
        if not doubtful.any():
            return _with_defaults(column, self.shape), {}
        faults = self.faults(texts, np.flatnonzero(doubtful))
        return _with_defaults(_without(column, faults), self.shape), faults

    def together(self, texts: pa.BinaryArray) -> tuple[pa.StructArray, npt.NDArray[np.bool_]] | None:
        """Return what all documents have, without defaults, and which of them have to be judged alone; None: all of them."""
        column = self._bulk(texts) if self._in_bulk and _are_objects(texts).all() else None
        return None if column is None else (column, self._doubtful(column, texts))

    def value_of(self, text: bytes) -> Any:
        """Return one document as ``pa.array`` takes it. Raises ``Refused``."""
        if self._bytes_max is not None and len(text) > self._bytes_max:
            what = f"it has {len(text):,} bytes; a schema with so many rules (allOf, oneOf, anyOf, not) takes {self._bytes_max:,}"
            raise Refused("", what)
        document = parsed(text)
        try:
            value = converted(self.shape, document, "")
            fault = None if self._check is None else self._check(plain(document))
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise Refused("", "it is nested too deep, or has a number or a text that can't be checked") from error
        if fault is not None:
            raise Refused(fault.path, fault.what)
        return value

    @property
    def has_check(self) -> bool:
        """Whether documents have rules that the shape does not say."""
        return self._check is not None

    def faults(
        self, texts: pa.BinaryArray, rows: npt.NDArray[np.intp], column: pa.Array | None = None
    ) -> dict[int, Fault]:
        """Return the faults of these rows' documents, each judged alone.

        ``column``: what the documents were made of, if another branch of a choice may take a document than the one that is set.
        """
        found = {}
        for row in rows.tolist():
            try:
                value = self.value_of(texts[row].as_py())
            except Refused as error:
                found[row] = error.fault
                continue
            if column is not None and not pa.array([value], self.type).equals(column.slice(row, 1)):
                found[row] = Fault("", "it has a choice whose member is not the first that takes its value")
        return found

    def _one_by_one(self, texts: pa.BinaryArray) -> tuple[pa.Array, dict[int, Fault]]:
        values: list[Any] = []
        faults = {}
        for row, text in enumerate(texts.to_pylist()):
            try:
                values.append(self.value_of(text))
            except Refused as error:
                faults[row] = error.fault
                values.append(None)
        try:
            return pa.array(values, self.type), faults
        except (pa.ArrowException, ValueError, ArithmeticError):
            return self._without_unfit(values, faults)

    def _without_unfit(self, values: list[Any], faults: dict[int, Fault]) -> tuple[pa.Array, dict[int, Fault]]:
        """Return the column without the values that Arrow does not take, although the shape does."""
        for row, value in enumerate(values):
            try:
                pa.array([value], self.type)
            except (pa.ArrowException, ValueError, ArithmeticError):
                values[row] = None
                faults[row] = Fault("", "it has a number or a text that a column can't have")
        return pa.array(values, self.type), faults

    def _bulk(self, texts: pa.BinaryArray) -> pa.StructArray | None:
        """Return the column as Arrow parses all documents; None if it fails, or finds another number of documents.

        Each text begins with ``{`` and ends with ``}``. Between two texts is a line feed, which no string contains, and inside a
        document no opening brace can follow a closing one. So each text ends where a document ends, and as many documents as
        texts means one in each.
        """
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), b"\n")[0]
        body = joined.as_buffer()
        try:
            pa.array([joined]).cast(pa.string())
            read_options = pj.ReadOptions(use_threads=False, block_size=max(body.size + 1, _BLOCK_BYTES_MIN))
            table = pj.read_json(pa.BufferReader(body), read_options=read_options, parse_options=self._options)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if table.num_rows != len(texts):
            return None
        columns = [column.combine_chunks() for column in table.select(self.type.names).columns]
        parsed_column = pa.StructArray.from_arrays(columns, names=self.type.names)
        try:
            return with_times(parsed_column, self.type)
        except pa.ArrowInvalid:
            return None

    def _doubtful(self, column: pa.StructArray, texts: pa.BinaryArray) -> npt.NDArray[np.bool_]:
        """Return which documents have to be judged alone."""
        assert isinstance(self.shape, Record)
        doubtful = np.zeros(len(column), np.bool_)
        nulls = pc.match_substring(texts, "null").to_numpy(zero_copy_only=False)
        _suspect(self.shape, column, np.ones(len(column), np.bool_), nulls, doubtful)
        if self._has_decimals:
            doubtful |= has_odd_number(texts)
        if not self._is_closed:
            # Arrow reads NaN and Infinity, which are no JSON, also in members that have no column.
            doubtful |= pc.match_substring_regex(texts, r"[:\[,]\s*-?(NaN|Inf)").to_numpy(zero_copy_only=False)
        return doubtful


def _are_objects(texts: pa.BinaryArray) -> npt.NDArray[np.bool_]:
    """Return which texts begin with an opening brace and end with a closing one."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    body = texts.buffers()[2]
    if body is None or not body.size:
        return np.zeros(len(texts), np.bool_)
    data = np.frombuffer(body, np.uint8)
    first = data[np.minimum(offsets[:-1], len(data) - 1)]
    last = data[np.maximum(offsets[1:] - 1, 0)]
    found: npt.NDArray[np.bool_] = (first == ord("{")) & (last == ord("}")) & (np.diff(offsets) > 1)
    return found


def _in_bulk(shape: Shape) -> bool:
    """Return whether Arrow parses documents of the shape. It does not tell null from absence, which may have a default."""
    if isinstance(shape, Scalar):
        return not pa.types.is_binary(shape.type)
    if isinstance(shape, ListOf):
        return _in_bulk(shape.item) and not (isinstance(shape.item, Record) and _has_defaults(shape.item))
    if isinstance(shape, MapOf) or shape.is_union:
        return False
    return all(
        _in_bulk(member.shape)
        and (member.default in (ABSENT, None) or (isinstance(member.shape, Scalar) and not member.is_nullable))
        for member in shape.members
    )


def _is_closed(shape: Shape) -> bool:
    """Return whether no record of the shape may have further members."""
    if isinstance(shape, ListOf):
        return _is_closed(shape.item)
    return not isinstance(shape, Record) or (
        not shape.is_open and all(_is_closed(member.shape) for member in shape.members)
    )


_Mask = npt.NDArray[np.bool_]


def _suspect(shape: Record, column: pa.StructArray, present: _Mask, nulls: _Mask, doubtful: _Mask) -> None:
    """Mark the rows of a record's column that a missing member, a wrong null or a wrong text may be in.

    Args:
        shape: the record.
        column: its column.
        present: rows that have the record.
        nulls: rows in whose texts null may be. Where it is not allowed, but absence is, Arrow does not tell one from the other.
        doubtful: the rows marked so far.
    """
    for index, member in enumerate(shape.members):
        values = column.field(index)
        valid = (
            np.ones(len(values), np.bool_)
            if not values.null_count
            else values.is_valid().to_numpy(zero_copy_only=False)
        )
        if member.is_required:
            doubtful |= present & ~valid
        elif not member.is_nullable:
            doubtful |= present & ~valid & nulls
        if isinstance(member.shape, Record):
            _suspect(member.shape, values, present & valid, nulls, doubtful)
        elif isinstance(member.shape, ListOf):
            doubtful |= valid & _has_suspects(member.shape, values, has_nulls=False)
            if nulls.any():
                doubtful |= valid & nulls & _has_suspects(member.shape, values, has_nulls=True)
        elif isinstance(member.shape, Scalar) and member.shape.symbols is not None:
            known = pc.is_in(values, pa.array(member.shape.symbols, pa.string())).to_numpy(zero_copy_only=False)
            doubtful |= present & valid & ~known
        elif pa.types.is_decimal(values.type):
            doubtful |= not has_its_digits(values)
        elif pa.types.is_floating(values.type):
            finite = pc.fill_null(pc.is_finite(values), True).to_numpy(zero_copy_only=False)
            doubtful |= ~finite
        elif pa.types.is_temporal(values.type):
            low, high = (DATE_MIN, DATE_MAX) if pa.types.is_date(values.type) else (TIMESTAMP_US_MIN, TIMESTAMP_US_MAX)
            numbers = values.view(pa.int32() if pa.types.is_date(values.type) else pa.int64())
            beyond = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
            doubtful |= pc.fill_null(beyond, False).to_numpy(zero_copy_only=False)


def _has_suspects(shape: ListOf, lists: pa.ListArray, *, has_nulls: bool) -> _Mask:
    """Return the rows whose items have to be looked at: all of them once any item is suspect. ``has_nulls``: whether their texts
    may have null."""
    items = lists.flatten()
    found = np.zeros(len(items), np.bool_)
    holder = Record((Member("item", shape.item, not shape.has_nulls, shape.has_nulls),))
    struct = pa.StructArray.from_arrays([items], names=["item"])
    _suspect(holder, struct, np.ones(len(items), np.bool_), np.full(len(items), has_nulls), found)
    return np.full(len(lists), bool(found.any()))


def _without(column: pa.Array, faults: dict[int, Fault]) -> pa.Array:
    """Return the column with null for the refused rows."""
    if not faults:
        return column
    keep = np.ones(len(column), np.bool_)
    keep[list(faults)] = False
    return pc.if_else(pa.array(keep), column, pa.scalar(None, column.type))


def _with_defaults(column: pa.StructArray, shape: Shape) -> pa.StructArray:
    """Return the column with the default of each member that is null and not nullable."""
    assert isinstance(shape, Record)
    columns = []
    changed = False
    for index, member in enumerate(shape.members):
        values = column.field(index)
        if isinstance(member.shape, Record) and _has_defaults(member.shape):
            values, changed = _with_defaults(values, member.shape), True
        elif member.default not in (ABSENT, None) and values.null_count:
            default = pa.scalar(converted(member.shape, member.default, member.name), values.type)
            values, changed = pc.fill_null(values, default), True
        columns.append(values)
    if not changed:
        return column
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(column.type), mask=mask)


def _has_defaults(shape: Record) -> bool:
    return any(
        member.default not in (ABSENT, None) or (isinstance(member.shape, Record) and _has_defaults(member.shape))
        for member in shape.members
    )
