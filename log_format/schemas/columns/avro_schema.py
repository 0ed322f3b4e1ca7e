"""The readers of an Avro schema's text. Source: Apache Avro 1.12, Specification, "Schema Declaration"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from log_format.errors import DECODE_ERRORS
from log_format.records.schema import TIMESTAMP
from log_format.schemas.columns import avro, avro_compound
from log_format.schemas.columns.shape import (
    ABSENT,
    DATE_MAX,
    DATE_MIN,
    DECIMAL_DIGITS_MAX,
    DEPTH_MAX,
    LEAVES_MAX,
    TIMESTAMP_US_MAX,
    TIMESTAMP_US_MIN,
    Member,
    Untypable,
    checked,
)

_INT = (-(2**31), 2**31 - 1)
_LONG = (avro.INT64_MIN, avro.INT64_MAX)
_DATE = (DATE_MIN, DATE_MAX)
_MICROS = (TIMESTAMP_US_MIN, TIMESTAMP_US_MAX)
_MILLIS = (TIMESTAMP_US_MIN // 1000, TIMESTAMP_US_MAX // 1000)

_PRIMITIVES: Final[Mapping[str, avro.Reader]] = {
    "int": avro.Number(pa.int32(), *_INT),
    "long": avro.Number(pa.int64(), *_LONG),
    "float": avro.Real(pa.float32()),
    "double": avro.Real(pa.float64()),
    "boolean": avro.Flag(),
    "string": avro.Text(),
    "bytes": avro.Bytes(),
}
_LOGICAL: Final[Mapping[tuple[str, str], avro.Reader]] = {
    ("int", "date"): avro.Number(pa.date32(), *_DATE),
    ("long", "timestamp-millis"): avro.Number(TIMESTAMP, *_MILLIS, factor=1000),
    ("long", "timestamp-micros"): avro.Number(TIMESTAMP, *_MICROS),
}


def avro_reader(text: str, references: Sequence[str] = ()) -> avro.Reader:
    """Return the reader of a schema.

    Args:
        text: the schema.
        references: texts of the schemas whose types it names, each after those that it refers to itself.

    Raises:
        Untypable: columns can't have it, or it is no schema.
    """
    types = _Types()
    for reference in references:
        types.reader(_json(reference), "", "", 1)
    reader = types.reader(_json(text), "", "", 1)
    if reader is None:
        raise Untypable("", "is only null")
    checked(reader.shape)
    return reader


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except DECODE_ERRORS:
        return text if text.isidentifier() else _no_schema("", "is not JSON")


def _no_schema(path: str, what: str) -> Any:
    raise Untypable(path, what)


class _Types:
    """The named types met so far, by full name; None: its declaration is not at its end."""

    def __init__(self) -> None:
        self._named: dict[str, avro.Reader | None] = {}
        self._count = 0

    def reader(self, schema: Any, namespace: str, path: str, depth: int) -> avro.Reader | None:
        """Return the reader; None for null."""
        self._count += 1
        if depth > DEPTH_MAX or self._count > 4 * LEAVES_MAX:
            raise Untypable(path, "is too large or nested too deep")
        if isinstance(schema, str):
            return self._by_name(schema, namespace, path)
        if isinstance(schema, list):
            return self._union(schema, namespace, path, depth)
        if not isinstance(schema, dict):
            raise Untypable(path, "is no Avro type")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self.reader(kind, namespace, path, depth + 1)
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, path, depth)
            case "enum":
                return self._declared(schema, namespace, path, avro.Symbol(_symbols(schema, path)))
            case "fixed":
                return self._declared(schema, namespace, path, _fixed(schema, path))
            case "array" | "map":
                item = self.reader(
                    schema.get("items" if kind == "array" else "values"), namespace, f"{path}[]", depth + 1
                )
                if item is None or item.bytes_min == 0:
                    raise Untypable(path, "has items without bytes, so that any number of them takes no space")
                return avro_compound.Blocks(item, has_names=kind == "map")
            case str():
                logical = schema.get("logicalType")
                if (kind, logical) == ("bytes", "decimal"):
                    return _decimal(schema, path, None)
                found = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
                return found or self._by_name(kind, namespace, path)
        raise Untypable(path, "is no Avro type")

    def _by_name(self, name: str, namespace: str, path: str) -> avro.Reader | None:
        if name == "null":
            return None
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named:
            full = name
        if full not in self._named:
            raise Untypable(path, f"has the type {name!r}, which is not declared")
        found = self._named[full]
        if found is None:
            raise Untypable(path, f"contains itself ({full}); a column has no recursive type")
        return found

    def _declared(self, schema: Mapping[str, Any], namespace: str, path: str, reader: avro.Reader) -> avro.Reader:
        self._named[_full_name(schema, namespace, path)] = reader
        return reader

    def _record(self, schema: Mapping[str, Any], namespace: str, path: str, depth: int) -> avro.Reader:
        name = _full_name(schema, namespace, path)
        self._named[name] = None
        inner = name.rpartition(".")[0]
        members = []
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise Untypable(path, "is a record without fields")
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise Untypable(path, "has a field without a name")
            where = f"{path}.{field['name']}" if path else field["name"]
            reader = self.reader(_type_of(field), inner, where, depth + 1)
            if reader is None:
                continue  # the type null has no bytes
            is_nullable = isinstance(reader, avro_compound.Choice) and reader.is_nullable
            default = field.get("default", ABSENT)
            members.append((Member(field["name"], reader.shape, default is ABSENT, is_nullable, default), reader))
        # Counted before the shape is made: types that contain each other twice grow with each level.
        if sum(reader.leaves for _, reader in members) > LEAVES_MAX:
            raise Untypable(path, f"has more than {LEAVES_MAX:,} columns")
        reader = avro_compound.Row(tuple(members))
        self._named[name] = reader
        return reader

    def _union(self, schema: list[Any], namespace: str, path: str, depth: int) -> avro.Reader | None:
        branches = tuple(self.reader(branch, namespace, path, depth + 1) for branch in schema)
        if any(isinstance(branch, avro_compound.Choice) for branch in branches):
            raise Untypable(path, "is a union that contains a union")
        present = [branch for branch, reader in zip(schema, branches, strict=True) if reader is not None]
        if not present:
            return None
        names = tuple(_branch_name(branch) for branch in present)
        if sum(reader.leaves for reader in branches if reader is not None) > LEAVES_MAX:
            raise Untypable(path, f"has more than {LEAVES_MAX:,} columns")
        return avro_compound.Choice(branches, names)


def _type_of(field: Mapping[str, Any]) -> Any:
    """Return a field's type; its logical type may stand beside a primitive name."""
    kind = field.get("type")
    if isinstance(kind, str) and "logicalType" in field and kind in _PRIMITIVES:
        return {key: field[key] for key in ("type", "logicalType", "precision", "scale") if key in field}
    return kind


def _branch_name(branch: Any) -> str:
    """Return the name of a union's member: its type's, without namespace."""
    if isinstance(branch, str):
        return branch.rpartition(".")[2]
    name = branch.get("name", branch.get("type"))
    return name.rpartition(".")[2] if isinstance(name, str) else "value"


def _full_name(schema: Mapping[str, Any], namespace: str, path: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise Untypable(path, "is a named type without a name")
    if "." in name:
        return name
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if isinstance(space, str) and space else name


def _symbols(schema: Mapping[str, Any], path: str) -> tuple[str, ...]:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
        raise Untypable(path, "is an enum without symbols")
    return tuple(symbols)


def _fixed(schema: Mapping[str, Any], path: str) -> avro.Reader:
    size = schema.get("size")
    if not isinstance(size, int) or not 0 < size <= 1024 * 1024:
        raise Untypable(path, "is a fixed without a size from 1 to 1,048,576")
    return _decimal(schema, path, size) if schema.get("logicalType") == "decimal" else avro.Bytes(size)


def _decimal(schema: Mapping[str, Any], path: str, size: int | None) -> avro.Reader:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0):
        return avro.Bytes(size)  # an invalid logical type is ignored (Specification, "Logical Types")
    if scale > DECIMAL_DIGITS_MAX:
        raise Untypable(path, f"is a decimal with {scale} digits behind the point; a column takes {DECIMAL_DIGITS_MAX}")
    # Connect's converter writes 64 digits where a source says none: few values have more than a column takes.
    return avro.Exact(min(precision, DECIMAL_DIGITS_MAX), scale, size)
