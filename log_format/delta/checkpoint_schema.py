"""The rows of any program's checkpoint in Arrow: one column for each kind of action, and one action in each row.

Tidelog writes and needs ``SCHEMA``. Checkpoints by other programs may have more fields, lack some, and use other text types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout
from log_format.delta.actions import Add
from log_format.delta.features import refuse_metadata, refuse_protocol
from log_format.errors import CorruptData

_TEXT_MAP: Final = pa.map_(pa.string(), pa.string())
TXN: Final = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
ADD: Final = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXT_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXT_MAP),
    ]
)
REMOVE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXT_MAP),
        ("size", pa.int64()),
    ]
)
METADATA: Final = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXT_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXT_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL: Final = pa.struct(
    [("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()), ("writerFeatures", pa.list_(pa.string()))]
)
SCHEMA: Final = pa.schema(
    [("txn", TXN), ("add", ADD), ("remove", REMOVE), ("metaData", METADATA), ("protocol", PROTOCOL)]
)
REQUIRED: Final = (
    ("txn", "appId"),
    ("txn", "version"),
    ("add", "path"),
    ("add", "size"),
    ("add", "modificationTime"),
    ("remove", "path"),
    ("metaData", "id"),
    ("metaData", "schemaString"),
)
"""Fields that every action of the kind must have."""


@contextmanager
def as_corrupt(root: str, version: int, **fields: Any) -> Iterator[None]:
    """Turn Arrow's error about an unreadable checkpoint into ``CorruptData``, which names the object and has ``fields``."""
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, ValueError) as problem:
        raise CorruptData(
            f"The checkpoint {version} of {root.rstrip('/')} can't be read: {problem}.",
            object=layout.table_checkpoint_key(root, version),
            **fields,
        ) from problem


def conforming(table: pa.Table, fields: Sequence[pa.Field] = tuple(SCHEMA)) -> pa.Table:
    """Return the columns ``fields``, each with our fields only. Raises ``ValueError``, ``pa.ArrowException``."""
    found = pa.table([_conforming(table, field) for field in fields], schema=pa.schema(fields))
    found.validate(full=True)
    return found


def check_required(table: pa.Table) -> None:
    """Raise ``ValueError`` if an action lacks a required field."""
    names = set(table.column_names)
    for column, name in REQUIRED:
        # Where the action itself is null, so is each of its fields.
        if column in names and pc.struct_field(table.column(column), name).null_count > table.column(column).null_count:
            raise ValueError(f"{column}.{name} is null")


def refuse_features(table: pa.Table, key: str) -> None:
    """Raise ``UnsupportedTable`` if ``protocol`` or ``metaData`` has a feature that no table of Tidelog has."""
    for protocol in select_actions(table, "protocol").to_pylist():
        versions = protocol["minReaderVersion"] or 0, protocol["minWriterVersion"] or 0
        refuse_protocol(key, *versions, protocol["writerFeatures"] or ())
    for metadata in select_actions(table, "metaData").to_pylist():
        refuse_metadata(key, metadata["partitionColumns"] or (), dict(metadata["configuration"] or ()))


def _conforming(table: pa.Table, field: pa.Field) -> pa.Array:
    """Return the column with our fields, whichever fields the checkpoint's writer added or left out."""
    if field.name not in table.column_names:
        raise ValueError(f"it has no column {field.name}")
    column = pa.concat_arrays(table.column(field.name).chunks) if table.num_rows else pa.array([], field.type)
    if not pa.types.is_struct(column.type):
        raise ValueError(f"{field.name} is no struct")
    names = [child.name for child in column.type]
    children = []
    for child in field.type:
        values = pc.struct_field(column, child.name) if child.name in names else pa.nulls(len(column), child.type)
        children.append(values if values.type.equals(child.type) else values.cast(child.type))
    return pa.StructArray.from_arrays(children, fields=list(field.type), mask=column.is_null())


def select_actions(table: pa.Table, name: str) -> pa.Array:
    """Return the actions of one kind."""
    column = table.column(name).combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1 else column
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column.drop_null()


def add_of(row: dict[str, Any]) -> Add:
    """Return a row of ``ADD`` as an action that adds the file without new records."""
    return Add(
        path=row["path"],
        partition_values=dict(row["partitionValues"] or ()),
        size=row["size"],
        modification_time=row["modificationTime"],
        data_change=False,
        stats=row["stats"],
        tags=None if row["tags"] is None else dict(row["tags"]),
    )
