"""A table's schema in Delta's format, for ``metaData.schemaString`` (protocol section "Schema Serialization Format")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pyarrow as pa

_PRIMITIVES: Final = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def schema_string(schema: Iterable[pa.Field]) -> str:
    """Return the schema as JSON, with all columns nullable."""
    return msgspec.json.encode(_struct(schema)).decode()


def _struct(fields: Iterable[pa.Field]) -> dict[str, Any]:
    named = [{"name": one.name, "type": _type(one.type), "nullable": True, "metadata": {}} for one in fields]
    return {"type": "struct", "fields": named}


def _type(arrow: pa.DataType) -> str | dict[str, Any]:
    if pa.types.is_list(arrow):
        return {"type": "array", "elementType": _type(arrow.value_type), "containsNull": True}
    return _struct(arrow) if pa.types.is_struct(arrow) else _PRIMITIVES[arrow]
