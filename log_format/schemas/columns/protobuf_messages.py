"""Protobuf's messages: their fields, ``oneof``, lists, maps, and the well-known messages that are columns of their own.

Read in bulk, a message has its fields in the order of their numbers, as serializers write them; what is not so is doubtful.
A message alone is one of Google's library, of the types of ``protobuf_alone``: numbers are not cut off, strings are bytes, a map
is a list of entries, and no field is required. So whatever a value may not be is told here, by its path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.unknown_fields import UnknownFieldSet

from log_format.records.schema import TIMESTAMP
from log_format.records.varints import Int64s
from log_format.schemas.columns.cursor import ALL, Rows, spread
from log_format.schemas.columns.document_values import Refused
from log_format.schemas.columns.protobuf_alone import attribute
from log_format.schemas.columns.protobuf_lists import doubt_absent, doubt_twins, packed, repeated, within_budget
from log_format.schemas.columns.protobuf_scalars import GROUP, LENGTH, Budget, Node, Roots, Sized
from log_format.schemas.columns.protobuf_view import Flags, View
from log_format.schemas.columns.shape import (
    ABSENT,
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

_SECONDS: Final = (TIMESTAMP_US_MIN // 10**6, TIMESTAMP_US_MAX // 10**6)
_NANOS: Final = (0, 10**9 - 1)
"""Least and largest number in a timestamp."""


class Form(Enum):
    """How often a field is there. ``IMPLICIT``: one that is absent has its default."""

    IMPLICIT = "implicit"
    OPTIONAL = "optional"
    REQUIRED = "required"
    REPEATED = "repeated"
    PACKED = "packed"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. ``document_name``: in JSON, beside its own. ``oneof``: the name of the ``oneof`` that it is in."""

    number: int
    name: str
    document_name: str
    node: Node
    form: Form
    oneof: str | None = None

    @property
    def attribute(self) -> str:
        """Its name in a message that is read alone."""
        return attribute(self.number)

    @property
    def is_list(self) -> bool:
        """Whether it may be there several times."""
        return self.form in (Form.REPEATED, Form.PACKED, Form.MAP)

    @property
    def has_column(self) -> bool:
        """Whether it gets one: a message without fields has none."""
        return self.node.leaves > 0

    @property
    def shape(self) -> Shape:
        """Shape of the column."""
        if self.form is Form.MAP:
            return MapOf(self.node.fields[1].node.shape)  # type: ignore[attr-defined]
        return ListOf(self.node.shape) if self.is_list else self.node.shape

    @property
    def tag(self) -> tuple[int, int]:
        """The field's number and type on the wire, as a number, and how many bytes it has."""
        tag = self.number << 3 | (LENGTH if self.form is Form.PACKED else self.node.wire)
        found = 0
        size = 0
        while True:
            found |= (tag & 0x7F | (0x80 if tag > 0x7F else 0)) << (8 * size)
            size += 1
            tag >>= 7
            if not tag:
                return found, size


class Message(Sized):
    """A message.

    Args:
        name: its full name.
        fields: its fields, as they are declared.
        is_group: whether it is written as a group (proto2, or ``DELIMITED`` in editions), which is only judged alone.
    """

    def __init__(self, name: str, fields: Sequence[Field], *, is_group: bool = False) -> None:
        self.name = name
        self.fields = tuple(fields)
        self.wire = GROUP if is_group else LENGTH
        self.leaves = sum(field.node.leaves for field in fields)
        lists = [field.node for field in fields if field.is_list and isinstance(field.node, Message)]
        parts_of = [field.node.widest_item for field in fields if isinstance(field.node, Message)]
        self.widest_item: int = max([*(node.leaves for node in lists), *parts_of], default=0)
        """Most columns of an item of a list in it."""
        self._ordered = [(field, *field.tag) for field in sorted(fields, key=lambda field: field.number)]
        self.by_number = {field.number: field for field in fields}
        self.by_document_name = {field.document_name: field for field in fields} | {
            field.name: field for field in fields
        }
        parts: dict[str, list[Field]] = {}
        for field in fields:
            if field.has_column:
                parts.setdefault(field.oneof or field.name, []).append(field)
        self._parts = parts
        self.shape = Record(tuple(_member(name, found) for name, found in parts.items()))
        self._kinds = {field.number: arrow_type(field.shape) for field in fields if field.has_column}

    def column(self, view: View, values: Int64s, roots: Roots) -> pa.Array:
        """Return a struct of the fields."""
        return self.read(view.within(values, roots))

    def read(self, view: View) -> pa.StructArray:
        """Return a struct of the fields of the view's messages, from their positions to their ends."""
        columns, present = self._columns(view)
        view.doubt_unfinished()
        return self.assembled(columns, present)

    def assembled(
        self, columns: Mapping[int, pa.Array], present: Mapping[int, Flags], mask: pa.Array | None = None
    ) -> pa.StructArray:
        """Return a struct of the fields' columns.

        Args:
            columns: of each field that has one, by number.
            present: which messages have a field of a ``oneof``, by number.
            mask: which messages are absent; None: none.
        """
        found: list[pa.Array] = []
        for name, fields in self._parts.items():
            if fields[0].oneof is None:
                found.append(columns[fields[0].number])
                continue
            kinds = [pa.field(field.name, self._kinds[field.number]) for field in fields]
            is_set = np.logical_or.reduce([present[field.number] for field in fields])
            members = [columns[field.number] for field in fields]
            found.append(pa.StructArray.from_arrays(members, fields=kinds, mask=pa.array(~is_set)))
            assert name == fields[0].oneof
        return pa.StructArray.from_arrays(found, fields=list(self.type), mask=mask)

    def _columns(self, view: View) -> tuple[dict[int, pa.Array], dict[int, Flags]]:
        """Return the column of each field that has one, and which messages have the fields of a ``oneof``, by number."""
        columns: dict[int, pa.Array] = {}
        present: dict[int, Flags] = {}
        chosen: dict[str, Flags] = {}
        for field, tag, tag_bytes in self._ordered:
            if field.is_list:
                column = self._list(view, field, tag, tag_bytes)
                if column is not None:
                    columns[field.number] = column
                continue
            has = view.has(ALL, tag, tag_bytes)
            if field.oneof is not None:
                present[field.number] = has
                before = chosen.get(field.oneof)
                if before is not None and (before & has).any():
                    view.doubt(ALL, before & has)
                chosen[field.oneof] = has if before is None else before | has
            column = self._single(view, field, has, tag_bytes)
            if column is not None:
                columns[field.number] = column
        return columns, present

    def _single(self, view: View, field: Field, has: Flags, tag_bytes: int) -> pa.Array | None:
        node = field.node
        every = len(view) > 0 and bool(has.all())
        if field.form is Form.REQUIRED and not every:
            view.doubt(ALL, ~has)
        if node.wire == GROUP or not node.leaves:
            self._skip(view, node, has, tag_bytes)
            return pa.nulls(len(view), node.type) if node.leaves else None
        if not every and not has.any():
            return _absent(field, len(view))
        rows: Rows = ALL if every else np.flatnonzero(has)
        values, behind, bad = node.found(view, view.at[rows] + tag_bytes, view.ends[rows])
        view.move(rows, behind, bad)
        if every:
            return node.column(view, values, view.roots)
        if field.form is Form.IMPLICIT:
            full = node.filled(view)
            full[has] = values
            return node.column(view, full, view.roots)
        return spread(node.column(view, values, view.roots[rows]), has)

    def _skip(self, view: View, node: Node, has: Flags, tag_bytes: int) -> None:
        """Go past messages without columns that are empty; others are doubtful, and so are groups."""
        rows = np.flatnonzero(has)
        if not len(rows):
            return
        at = view.at[rows] + tag_bytes
        view.move(rows, at + 1, (view.data[at] != 0) | (node.wire == GROUP))

    def _list(self, view: View, field: Field, tag: int, tag_bytes: int) -> pa.Array | None:
        node = field.node
        if field.form is Form.PACKED:
            rows, values = packed(view, node, tag, tag_bytes)
        else:
            rows, values = repeated(view, node, tag, tag_bytes)
        if not node.leaves:
            if len(rows):
                view.doubtful[view.roots[rows[values[:, 1] > 0]]] = True
            return None
        if isinstance(node, Message):
            rows, values = within_budget(view, node.leaves, rows, values)
        counts = np.bincount(rows, minlength=len(view))
        offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        kind = self._kinds[field.number]
        if not len(rows):
            items: pa.Array = pa.nulls(0, node.type)
        else:
            items = node.column(view, values, view.roots[rows])
        if field.form is not Form.MAP:
            return pa.ListArray.from_arrays(offsets, items, type=kind)
        keys = items.field(0)
        doubt_twins(view, keys, rows)
        doubt_absent(view, items, rows)
        return pa.MapArray.from_arrays(offsets, keys.cast(pa.string()), items.field(1), type=kind)

    def value(self, raw: Any, path: str, budget: Budget) -> Any:
        """Return the fields. Raises ``Refused``."""
        for unknown in UnknownFieldSet(raw):
            field = self.by_number.get(unknown.field_number)
            if field is not None:
                raise Refused(_joined(path, field), "its bytes are not of its type")
        found: dict[str, Any] = {}
        for field in self.fields:
            where = _joined(path, field)
            value = self._one(raw, field, where, budget)
            if field.has_column and field.oneof is None:
                found[field.name] = value
            elif field.has_column and raw.HasField(field.attribute):
                found[field.oneof or ""] = {field.name: value}
        return found

    def _one(self, raw: Any, field: Field, path: str, budget: Budget) -> Any:
        node = field.node
        if field.form is Form.MAP:
            entries = getattr(raw, field.attribute)
            budget.spend(len(entries) * node.leaves, path)
            return list(_entries(node, entries, path, budget).items())
        if field.is_list:
            items = getattr(raw, field.attribute)
            if isinstance(node, Message):
                budget.spend(len(items) * node.leaves, path)
            return [node.value(item, f"{path}[{index}]", budget) for index, item in enumerate(items)]
        if field.form is Form.IMPLICIT:
            return node.value(getattr(raw, field.attribute), path, budget)
        if raw.HasField(field.attribute):
            return node.value(getattr(raw, field.attribute), path, budget)
        if field.form is Form.REQUIRED:
            raise Refused(path, "it is missing")
        return None


class Moment(Message):
    """A ``google.protobuf.Timestamp``: microseconds, what is finer is cut off."""

    def __init__(self, name: str, fields: Sequence[Field], *, is_group: bool = False) -> None:
        super().__init__(name, fields, is_group=is_group)
        self.leaves = 1
        self.shape = Scalar(TIMESTAMP)

    def read(self, view: View) -> pa.Array:
        """Return the timestamps."""
        columns, _ = self._columns(view)
        view.doubt_unfinished()
        seconds, nanos = (columns[number].to_numpy(zero_copy_only=False) for number in (1, 2))
        if not (_are_within(seconds, *_SECONDS) and _are_within(nanos, *_NANOS)):
            bad = (seconds < _SECONDS[0]) | (seconds > _SECONDS[1]) | (nanos < _NANOS[0]) | (nanos > _NANOS[1])
            view.doubt(ALL, bad)
            seconds, nanos = np.where(bad, 0, seconds), np.where(bad, 0, nanos)
        return pa.array(seconds * 10**6 + nanos // 1000).view(TIMESTAMP)

    def value(self, raw: Any, path: str, budget: Budget) -> Any:
        """Return the timestamp."""
        parts = super().value(raw, path, budget)
        seconds, nanos = parts["seconds"], parts["nanos"]
        if not (_SECONDS[0] <= seconds <= _SECONDS[1] and _NANOS[0] <= nanos <= _NANOS[1]):
            raise Refused(path, "it must be from 0001-01-01 to 9999-12-31, with 0 to 999,999,999 nanoseconds")
        return seconds * 10**6 + nanos // 1000


class Wrapper(Message):
    """A ``google.protobuf.StringValue`` and its like: the value in it, null where the message is absent."""

    def __init__(self, name: str, fields: Sequence[Field], *, is_group: bool = False) -> None:
        super().__init__(name, fields, is_group=is_group)
        self.shape = fields[0].node.shape

    def read(self, view: View) -> pa.Array:
        """Return the values."""
        columns, _ = self._columns(view)
        view.doubt_unfinished()
        return columns[1]

    def value(self, raw: Any, path: str, budget: Budget) -> Any:
        """Return the value."""
        return super().value(raw, path, budget)["value"]


def _are_within(numbers: npt.NDArray[Any], low: int, high: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= low and numbers.max() <= high)


def _joined(path: str, field: Field) -> str:
    names = (path, field.oneof, field.name)
    return ".".join(name for name in names if name)


def _member(name: str, fields: Sequence[Field]) -> Member:
    """Return a member of the shape: a field, or a ``oneof`` of fields."""
    first = fields[0]
    if first.oneof is None:
        is_nullable = first.form is Form.OPTIONAL
        default = ABSENT if first.form in (Form.OPTIONAL, Form.REQUIRED) else _document_default(first)
        return Member(name, first.shape, first.form is Form.REQUIRED, is_nullable, default)
    members = tuple(Member(field.name, field.shape, is_required=False, is_nullable=True) for field in fields)
    return Member(name, Record(members, is_union=True), is_required=False, is_nullable=True)


def _document_default(field: Field) -> object:
    """Return the default as JSON has it."""
    if field.is_list:
        return {} if field.form is Form.MAP else []
    return "" if field.node.default == b"" else field.node.default


def _absent(field: Field, count: int) -> pa.Array:
    kind = field.node.type
    if field.form is not Form.IMPLICIT:
        return pa.nulls(count, kind)
    return pa.repeat(pa.scalar(field.node.default, kind), count)


def _entries(node: Any, entries: Any, path: str, budget: Budget) -> dict[str, Any]:
    """Return the entries of a map; of two with one key the last one counts."""
    key_field, value_field = node.fields
    found: dict[str, Any] = {}
    for entry in entries:
        for unknown in UnknownFieldSet(entry):
            if unknown.field_number in (1, 2):
                raise Refused(path, "the bytes of an entry are not of its type")
        key = key_field.node.value(entry.f1, path, budget)
        name = ("true" if key else "false") if isinstance(key, bool) else str(key)
        found[name] = value_field.node.value(entry.f2, f"{path}.{name[:80]}", budget)
    return found
