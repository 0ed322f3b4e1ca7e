"""The columns of a topic's table in its metadata."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from log_format.delta.actions import PROTOCOL, Protocol
from log_format.delta.features import COLUMNS_FEATURE, FEATURE, TABLE_FEATURE
from log_format.delta.table_schema import parse_column_types, schema_string
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import DATA, KEY_DATA, NO_TYPED_COLUMNS, TypedColumns, record_schema

_PLAIN_SCHEMA = schema_string(RECORD_SCHEMA)


def table_schema_string(columns: TypedColumns) -> str:
    """Return the schema of the table, for its metadata."""
    return schema_string(record_schema(columns)) if columns else _PLAIN_SCHEMA


@lru_cache(maxsize=1_000)
def parse_typed_columns(schema: str) -> TypedColumns:
    """Return the typed columns that a table's metadata names. Raises ``ValueError``."""
    if schema == _PLAIN_SCHEMA:
        return NO_TYPED_COLUMNS
    types = parse_column_types(schema, (DATA, KEY_DATA))
    return TypedColumns(types.get(DATA), types.get(KEY_DATA))


def protocol_of(columns: TypedColumns, *, has_table_feature: bool) -> Protocol:
    """Return the protocol of a table with these columns. ``has_table_feature``: as in ``TopicState``; it is never taken back."""
    features = [FEATURE, *([COLUMNS_FEATURE] if columns else []), *([TABLE_FEATURE] if has_table_feature else [])]
    return msgspec.structs.replace(PROTOCOL, writer_features=features)
