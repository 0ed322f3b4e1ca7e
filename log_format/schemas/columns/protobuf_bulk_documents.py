"""JSON documents of a Protobuf message, many at once: Arrow parses them in the forms that the first ones have.

Protobuf's JSON has several forms of a field: two names, 64-bit integers as number or text. A sender writes one of them. So the
first documents say which, all are parsed with these types, and a document with another form is in doubt, or fails the bulk; what
is in doubt is read alone (``protobuf_documents``).

Maps, bytes, symbols by number, real numbers as text, and the messages with a form of their own are read alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.schemas.columns.documents import Documents
from log_format.schemas.columns.protobuf_documents import DOCUMENTS_OF_THEIR_OWN, SINGLE_END
from log_format.schemas.columns.protobuf_messages import Field, Form, Message, Moment, Wrapper
from log_format.schemas.columns.protobuf_scalars import Binary, Fixed, Flag, Node, Symbol, Text
from log_format.schemas.columns.shape import TIMESTAMP_US_MIN, ListOf, Member, Record, Scalar, Shape, arrow_type

_SAMPLES: Final = 16
_ITEM_COLUMNS_MAX: Final = 32
"""Most columns of an item of a list: with more, lists of items without bytes have to be counted."""
_BYTES_MAX: Final = 30_000
"""Longest document whose lists can't have more cells than a value may have."""
_INTEGER: Final = r"^-?(?:0|[1-9][0-9]{0,17})$"
_MOMENT: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z$"
_EPOCH: Final = "1970-01-01T00:00:00Z"

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
_Read = Callable[[pa.Array, Rows, Mask], pa.Array]
"""From what Arrow parsed to the column. The rows are the document of each value; the mask gets the documents in doubt."""


class _Part(NamedTuple):
    """How a part of documents is parsed, and what its column is made of."""

    shape: Shape
    read: _Read


class BulkDocuments:
    """Reader of documents of a message, many at once."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self._documents: Documents | None = None

    def column_of(self, texts: pa.BinaryArray) -> tuple[pa.Array, Mask] | None:
        """Return the column of documents, and which of them have to be read alone; None: all of them."""
        if self._message.widest_item > _ITEM_COLUMNS_MAX:
            return None
        samples = _samples(texts)
        part = None if samples is None else _message_part(self._message, samples)
        if part is None or not isinstance(part.shape, Record):
            return None
        if self._documents is None or self._documents.shape != part.shape:
            self._documents = Documents(part.shape)
        found = self._documents.together(texts)
        if found is None:
            return None
        column, doubtful = found
        doubtful |= pc.greater(pc.binary_length(texts), _BYTES_MAX).to_numpy(zero_copy_only=False)
        try:
            return part.read(column, np.arange(len(texts)), doubtful), doubtful
        except pa.ArrowInvalid:  # a date that is none
            return None


def _samples(texts: pa.BinaryArray) -> list[Any] | None:
    try:
        return [json.loads(text.as_py()) for text in texts[:_SAMPLES]]
    except (ValueError, RecursionError):
        return None


def _message_part(message: Message, samples: Sequence[Any]) -> _Part | None:
    """Return how documents of a message are read; None: alone. Fields that no sample has are left out, if they can't be read."""
    if message.name in DOCUMENTS_OF_THEIR_OWN or not all(isinstance(one, dict) for one in samples):
        return None
    members: list[Member] = []
    reads: dict[int, tuple[int, _Read]] = {}
    for field in message.fields:
        given = [one[name] for one in samples for name in {field.name, field.document_name} if name in one]
        part = _field_part(field, [one for one in given if one is not None])
        if part is None:
            if given or field.form is Form.REQUIRED:
                return None
            continue
        name = field.name if any(field.name in one for one in samples) else field.document_name
        is_required = field.form is Form.REQUIRED
        reads[field.number] = len(members), part.read
        members.append(Member(name, part.shape, is_required, is_nullable=not is_required))
    if not members or len({member.name for member in members}) < len(members):
        return None

    def read(values: pa.Array, rows: Rows, doubtful: Mask) -> pa.Array:
        columns: dict[int, pa.Array] = {}
        for field in message.fields:
            if field.has_column:
                at, of_field = reads.get(field.number, (-1, _absent))
                raw = pa.nulls(len(values), arrow_type(field.shape)) if at < 0 else values.field(at)
                columns[field.number] = of_field(raw, rows, doubtful)
        present = _of_oneofs(message, columns, rows, doubtful)
        filled = {field.number: _filled(field, columns[field.number]) for field in message.fields if field.has_column}
        return message.assembled(filled, present, values.is_null() if values.null_count else None)

    return _Part(Record(tuple(members)), read)


def _absent(values: pa.Array, _rows: Rows, _doubtful: Mask) -> pa.Array:
    return values


def _of_oneofs(message: Message, columns: dict[int, pa.Array], rows: Rows, doubtful: Mask) -> dict[int, Mask]:
    """Return which messages have each field of a ``oneof``; messages with two of one are in doubt."""
    found: dict[int, Mask] = {}
    counts: dict[str, npt.NDArray[np.int64]] = {}
    for field in message.fields:
        if field.oneof is not None and field.has_column:
            present = found[field.number] = columns[field.number].is_valid().to_numpy(zero_copy_only=False)
            counts[field.oneof] = counts.get(field.oneof, np.zeros(len(rows), np.int64)) + present
    for count in counts.values():
        doubtful[rows[count > 1]] = True
    return found


def _filled(field: Field, values: pa.Array) -> pa.Array:
    """Return the values with what an absent field has in place of null."""
    if not values.null_count:
        return values
    if field.is_list:
        return pa.repeat(pa.scalar([], values.type), len(values))  # no document has it
    return pc.fill_null(values, pa.scalar(field.node.default, values.type)) if field.form is Form.IMPLICIT else values


def _field_part(field: Field, samples: Sequence[Any]) -> _Part | None:
    if not field.has_column or field.form is Form.MAP:
        return None
    if not field.is_list:
        return _part(field.node, samples)
    if not all(isinstance(one, list) for one in samples):
        return None
    item = _part(field.node, [one for listed in samples for one in listed if one is not None])
    return None if item is None else _list_part(item, arrow_type(field.shape))


def _list_part(item: _Part, kind: pa.DataType) -> _Part:
    def read(values: pa.Array, rows: Rows, doubtful: Mask) -> pa.Array:
        offsets = np.asarray(values.offsets)
        items = values.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        found = item.read(items, np.repeat(rows, np.diff(offsets)), doubtful)
        return pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), found, type=kind)

    return _Part(ListOf(item.shape), read)


def _part(node: Node, samples: Sequence[Any]) -> _Part | None:
    if isinstance(node, Moment):
        return _Part(Scalar(pa.string()), _moments)
    if isinstance(node, Wrapper):
        return _part(node.fields[0].node, samples)
    if isinstance(node, Message):
        return _message_part(node, samples)
    is_text = any(isinstance(one, str) for one in samples)
    if isinstance(node, Text):
        return _Part(Scalar(pa.string()), _absent)
    if isinstance(node, Flag):
        return _Part(Scalar(pa.bool_()), _absent)
    if isinstance(node, Symbol):
        return _Part(Scalar(pa.string()), _symbols(node)) if is_text or not samples else None
    if isinstance(node, Binary):
        return None
    if isinstance(node, Fixed) and node.is_real:
        return None if is_text else _Part(Scalar(pa.float64()), _reals(node))
    is_long = node.type != pa.int32() and not samples
    return _Part(Scalar(pa.string() if is_text or is_long else pa.int64()), _integers(node))


def _doubt(bad: pa.Array, rows: Rows, doubtful: Mask) -> None:
    marked = pc.fill_null(bad, False).to_numpy(zero_copy_only=False)
    doubtful[rows[marked]] = True


def _replaced(values: pa.Array, bad: pa.Array, value: Any) -> pa.Array:
    """Return the values with another in place of those that are in doubt."""
    return pc.if_else(pc.fill_null(bad, False), pa.scalar(value, values.type), values)


def _integers(node: Any) -> _Read:
    low, high = max(node.bounds[0], -(2**63)), min(node.bounds[1], 2**63 - 1)

    def read(values: pa.Array, rows: Rows, doubtful: Mask) -> pa.Array:
        if pa.types.is_string(values.type):
            bad = pc.invert(pc.match_substring_regex(values, _INTEGER))
            _doubt(bad, rows, doubtful)
            values = _replaced(values, bad, "0").cast(pa.int64())
        bad = pc.or_(pc.less(values, low), pc.greater(values, high))
        _doubt(bad, rows, doubtful)
        values = _replaced(values, bad, 0)
        return (
            values.cast(pa.decimal128(19, 0)).cast(node.type)
            if pa.types.is_decimal(node.type)
            else values.cast(node.type)
        )

    return read


def _reals(node: Any) -> _Read:
    def read(values: pa.Array, rows: Rows, doubtful: Mask) -> pa.Array:
        bad = pc.invert(pc.is_finite(values))
        if node.is_single:
            bad = pc.or_(bad, pc.greater_equal(pc.abs(values), SINGLE_END))
        _doubt(bad, rows, doubtful)
        return _replaced(values, bad, 0.0).cast(node.type)

    return read


def _symbols(node: Symbol) -> _Read:
    names = pa.array(list(node.numbers), pa.string())
    firsts: dict[int, str] = {}
    for name, number in node.numbers.items():
        firsts.setdefault(number, name)
    canonical = pa.array([firsts[number] for number in node.numbers.values()], pa.string())

    def read(values: pa.Array, rows: Rows, doubtful: Mask) -> pa.Array:
        places = pc.index_in(values, names)
        _doubt(pc.and_(values.is_valid(), places.is_null()), rows, doubtful)
        return pc.take(canonical, places)

    return read


def _moments(values: pa.Array, rows: Rows, doubtful: Mask) -> pa.Array:
    bad = pc.invert(pc.match_substring_regex(values, _MOMENT))
    _doubt(bad, rows, doubtful)
    found = _replaced(values, bad, _EPOCH).cast(pa.timestamp("us", "UTC"))
    early = pc.less(found.view(pa.int64()), TIMESTAMP_US_MIN)
    _doubt(early, rows, doubtful)
    return found
