"""The typed columns of a topic's table: ``data`` of the value, ``key_data`` of the key, and ``data_error``, which says why a
record has none.

A topic without a schema has none of them. Types only ever grow: a member that a column has stays, and new ones come behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.schema import BATCH_SCHEMA, RECORD_SCHEMA

DATA: Final = "data"
KEY_DATA: Final = "key_data"
DATA_ERROR: Final = "data_error"
TYPED_NAMES: Final = (DATA, KEY_DATA, DATA_ERROR)
NOT_JUDGED: Final = "the topic's schemas were not known when the record was appended"
"""``data_error`` of a record that no schema could judge."""


class TypeConflict(ValueError):
    """A member whose type differs from the one that its column has. ``path``: the member; ``reason``: the end of a sentence."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'The value'} {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """Types of the columns; None: the table does not have the column. ``data_error`` is there if any other is."""

    data: pa.DataType | None = None
    key_data: pa.DataType | None = None

    def __bool__(self) -> bool:
        return self.data is not None or self.key_data is not None

    def fields(self) -> list[pa.Field]:
        """Return the columns behind those that every topic has."""
        found = [pa.field(name, one) for name, one in ((DATA, self.data), (KEY_DATA, self.key_data)) if one is not None]
        return [*found, pa.field(DATA_ERROR, pa.string())] if found else []

    @property
    def width(self) -> int:
        """Number of columns without parts."""
        return sum(_leaves(one) for one in (self.data, self.key_data) if one is not None)

    def merged_with(self, other: TypedColumns) -> TypedColumns:
        """Return columns for records of both. Raises ``TypeConflict``."""
        if other == self or not other:
            return self
        return TypedColumns(
            _merge_optional(self.data, other.data, ""), _merge_optional(self.key_data, other.key_data, "key")
        )


NO_TYPED_COLUMNS: Final = TypedColumns()


CELLS_MAX: Final = 4 * 1024 * 1024
"""Most values of all typed columns of a request's records, unless the records have as many bytes. A member that is present takes
a byte at least; one that is absent takes none, and yet a place in its column: 17 bytes while it is decoded."""


def _leaves(arrow: pa.DataType) -> int:
    if pa.types.is_struct(arrow):
        return sum(_leaves(field.type) for field in arrow)
    if pa.types.is_list(arrow):
        return _leaves(arrow.value_type)
    return 1 + _leaves(arrow.item_type) if pa.types.is_map(arrow) else 1


def record_schema(columns: TypedColumns) -> pa.Schema:
    """Return the schema of records with partition, offset and these typed columns."""
    return pa.schema([*RECORD_SCHEMA, *columns.fields()]) if columns else RECORD_SCHEMA


def batch_schema(columns: TypedColumns) -> pa.Schema:
    """Return the schema of records without offsets and with these typed columns."""
    return pa.schema([*BATCH_SCHEMA, *columns.fields()]) if columns else BATCH_SCHEMA


def typed_columns(schema: pa.Schema) -> TypedColumns:
    """Return the typed columns of a table or of records."""
    data, key_data = (schema.get_field_index(name) for name in (DATA, KEY_DATA))
    if data < 0 and key_data < 0:
        return NO_TYPED_COLUMNS
    return TypedColumns(
        schema.field(data).type if data >= 0 else None, schema.field(key_data).type if key_data >= 0 else None
    )


def without_typed_columns(records: pa.Table) -> pa.Table:
    """Return the records with only the columns that those of every topic have."""
    kept = [name for name in records.schema.names if name not in TYPED_NAMES]
    return records if len(kept) == len(records.schema.names) else records.select(kept)


def with_typed_columns(records: pa.Table, columns: TypedColumns) -> pa.Table:
    """Return the records with exactly these typed columns; what a record does not have is null."""
    plain = without_typed_columns(records)
    for field in columns.fields():
        if field.name in records.schema.names:
            values = conform(records.column(field.name).combine_chunks(), field.type)
        else:
            values = pa.nulls(records.num_rows, field.type)
        plain = plain.append_column(field, values)
    return plain


def are_unjudged(records: pa.Table, name: str) -> pa.ChunkedArray | None:
    """Return which records have a value (for ``DATA``; a key for ``KEY_DATA``) that no schema has judged; None if none has."""
    part, column = records.column("value" if name == DATA else "key"), records.column(name)
    if not column.null_count:
        return None
    errors = records.column(DATA_ERROR)
    missing = pc.and_(pc.is_valid(part), pc.is_null(column))
    if errors.null_count < len(errors):
        missing = pc.and_(missing, pc.fill_null(pc.equal(errors, NOT_JUDGED), True))
    return missing if pc.any(missing).as_py() else None


def conform(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return the values with a type that has all of their members: further members are null, the order is that of ``wanted``."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if values.type.equals(wanted):
        return values
    if pa.types.is_struct(wanted):
        children = []
        for field in wanted:
            at = values.type.get_field_index(field.name)
            child = pa.nulls(len(values), field.type) if at < 0 else conform(values.field(at), field.type)
            children.append(child)
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    mask = values.is_null() if values.null_count else None
    offsets = values.offsets
    if pa.types.is_list(wanted):
        items = conform(values.values, wanted.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=mask)
    keys, items = values.keys, conform(values.items, wanted.item_type)
    nullable = offsets if mask is None else pa.array(offsets.to_numpy(), mask=_behind(mask))
    return pa.MapArray.from_arrays(nullable, keys, items, type=wanted)


def members_to_read(stored: pa.DataType, wanted: pa.DataType, path: str) -> pa.DataType:
    """Return the part of a stored type that ``conform`` makes the wanted one of: the members that are wanted, and one at least.

    Raises ``TypeConflict`` for a member that is stored with another type.
    """
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        kept = [
            pa.field(field.name, members_to_read(field.type, wanted.field(at).type, f"{path}.{field.name}"))
            for field in stored
            if (at := wanted.get_field_index(field.name)) >= 0
        ]
        return pa.struct(kept or [stored.field(0)])  # which says where the whole is null
    if pa.types.is_list(stored) and pa.types.is_list(wanted):
        return pa.list_(pa.field("element", members_to_read(stored.value_type, wanted.value_type, f"{path}[]")))
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return pa.map_(stored.key_type, members_to_read(stored.item_type, wanted.item_type, f"{path}{{}}"))
    if stored.equals(wanted):
        return stored
    raise TypeConflict(path, f"is {stored}, and is asked for as {wanted}")


def _behind(mask: pa.Array) -> object:
    return [*mask.to_pylist(), False]


def leaves_of(fields: Iterable[pa.Field]) -> list[tuple[str, pa.DataType]]:
    """Return the Parquet columns of these columns: the path of each in the file, and its type."""
    found: list[tuple[str, pa.DataType]] = []
    for field in fields:
        _add_leaves(field.name, field.type, found)
    return found


def _add_leaves(path: str, arrow: pa.DataType, found: list[tuple[str, pa.DataType]]) -> None:
    if pa.types.is_struct(arrow):
        for field in arrow:
            _add_leaves(f"{path}.{field.name}", field.type, found)
    elif pa.types.is_list(arrow):
        _add_leaves(f"{path}.list.element", arrow.value_type, found)
    elif pa.types.is_map(arrow):
        _add_leaves(f"{path}.key_value.key", arrow.key_type, found)
        _add_leaves(f"{path}.key_value.value", arrow.item_type, found)
    else:
        found.append((path, arrow))


def path_of_two(arrow: pa.DataType) -> str | None:
    """Return a path that two of the Parquet columns of a typed column have, since a name has a dot; None if there is none."""
    found: list[tuple[str, pa.DataType]] = []
    _add_leaves("", arrow, found)
    seen: set[str] = set()
    return next((path[1:] for path, _ in found if path in seen or seen.add(path)), None)  # type: ignore[func-returns-value]


ONE_PATH: Final = "is the path of two members, since a name has a dot: give one another name"
"""End of the sentence about ``path_of_two``: Parquet's writer takes encodings by path, and its readers find columns by it."""


def merge(old: pa.DataType, new: pa.DataType, path: str = "") -> pa.DataType:
    """Return the type that has the members of both, those of ``old`` first and in their order.

    Raises ``TypeConflict`` for a member that both have with different types, and for a path that two members would have.
    """
    merged = _merged(old, new, path)
    if not merged.equals(old) and (twin := path_of_two(merged)) is not None:
        raise TypeConflict(twin, ONE_PATH)
    return merged


def _merged(old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
    if old.equals(new):
        return old
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        fields = list(old)
        at_name = {field.name.lower(): index for index, field in enumerate(fields)}
        for field in new:
            where = f"{path}.{field.name}" if path else field.name
            at = at_name.get(field.name.lower())
            if at is None:
                fields.append(field)
            elif fields[at].name != field.name:
                raise TypeConflict(where, f"has the same name as {fields[at].name!r} but for upper and lower case")
            else:
                fields[at] = pa.field(field.name, _merged(fields[at].type, field.type, where))
        return pa.struct(fields)
    if pa.types.is_list(old) and pa.types.is_list(new):
        return pa.list_(pa.field("element", _merged(old.value_type, new.value_type, f"{path}[]")))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(pa.string(), _merged(old.item_type, new.item_type, f"{path}{{}}"))
    raise TypeConflict(path, f"is {new}, and its column is {old}")


def _merge_optional(old: pa.DataType | None, new: pa.DataType | None, path: str) -> pa.DataType | None:
    if old is None or new is None:
        return old if new is None else new
    return merge(old, new, path)
