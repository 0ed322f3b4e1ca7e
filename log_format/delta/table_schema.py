"""A table's schema in Delta's format, for ``metaData.schemaString`` (protocol section "Schema Serialization Format")."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa

from log_format.errors import DECODE_ERRORS
from log_format.records.delta_types import arrow_type, delta_name


def schema_string(schema: Iterable[pa.Field]) -> str:
    """Return the schema as JSON, with all columns nullable."""
    return msgspec.json.encode(_struct(schema)).decode()


def parse_column_types(text: str, names: Container[str]) -> dict[str, pa.DataType]:
    """Return the types of those of the named columns that a schema has.

    Raises ``ValueError`` for a type that no column of Tidelog has. A text that is no schema has no columns.
    """
    try:
        fields = msgspec.json.decode(text).get("fields", ())
        named = {field["name"]: field["type"] for field in fields}
    except (*DECODE_ERRORS, AttributeError, KeyError, TypeError):
        return {}
    try:
        return {name: _parse(kind) for name, kind in named.items() if name in names}
    except (KeyError, TypeError, RecursionError) as problem:
        raise ValueError(f"the type of a column is not known: {problem}") from problem


def column_types(fields: Iterable[pa.Field]) -> Iterator[tuple[str, str]]:
    """Yield the columns with their types as one line of text, such as ``array<struct<sku:string>>``.

    Members that are reached through structs stand for themselves, under their path: ``data.amount``. A name with a dot is
    between backticks.
    """
    for one in fields:
        name = f"`{one.name}`" if "." in one.name else one.name
        if pa.types.is_struct(one.type):
            yield from ((f"{name}.{path}", kind) for path, kind in column_types(one.type))
        else:
            yield name, _type_text(one.type)


def _type_text(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"array<{_type_text(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{_type_text(arrow.key_type)},{_type_text(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{one.name}:{_type_text(one.type)}' for one in arrow)}>"
    return str(_type(arrow))


def _struct(fields: Iterable[pa.Field]) -> dict[str, Any]:
    named = [{"name": one.name, "type": _type(one.type), "nullable": True, "metadata": {}} for one in fields]
    return {"type": "struct", "fields": named}


def _type(arrow: pa.DataType) -> str | dict[str, Any]:
    if pa.types.is_list(arrow):
        return {"type": "array", "elementType": _type(arrow.value_type), "containsNull": True}
    if pa.types.is_map(arrow):
        named = {"keyType": _type(arrow.key_type), "valueType": _type(arrow.item_type)}
        return {"type": "map", **named, "valueContainsNull": True}
    return _struct(arrow) if pa.types.is_struct(arrow) else delta_name(arrow)


def _parse(kind: str | dict[str, Any]) -> pa.DataType:
    if isinstance(kind, str):
        return arrow_type(kind)
    match kind["type"]:
        case "array":
            return pa.list_(pa.field("element", _parse(kind["elementType"])))
        case "map":
            return pa.map_(_parse(kind["keyType"]), _parse(kind["valueType"]))
    return pa.struct([pa.field(field["name"], _parse(field["type"])) for field in kind["fields"]])
