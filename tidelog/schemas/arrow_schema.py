"""Avro schemas made of Arrow's, for topics whose values are sent as columns.

Avro rather than JSON Schema, since it has types for integers and real numbers of 32 bits, binary and exact decimals, so that a
topic's columns have the types that the sender's have. A field that may be null has null as its default: it may come and go.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from tidelog.arguments import require_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT_BITS: Final = 32
_LONG_BITS: Final = 64
_DECIMAL_DIGITS_MAX: Final = 38
_UINT64_DIGITS: Final = 20


def avro_schema(schema: pa.Schema, name: str = "Record") -> str:
    """Return the Avro schema of records with the fields of an Arrow schema. Raises ``TypeError`` naming a field without one."""
    return msgspec.json.encode(_record(list(schema), name, "", {name})).decode()


def read_arrow_schema(data: bytes, source: Path) -> pa.Schema:
    """Return the schema of an Arrow file, a stream, or a schema's message alone. Raises ``ValueError``."""
    require_pyarrow("an Arrow schema")
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    for opened in (pa.ipc.open_file, pa.ipc.open_stream, pa.ipc.read_schema):
        try:
            found = opened(pa.py_buffer(data))
        except (pa.ArrowException, OSError):
            continue
        return found if isinstance(found, pa.Schema) else found.schema
    raise ValueError(f"{source} is no Arrow file, stream or schema")


def _record(fields: list[pa.Field], name: str, path: str, names: set[str]) -> dict[str, Any]:
    members = []
    for field in fields:
        where = f"{path}.{field.name}" if path else field.name
        if not _NAME.fullmatch(field.name):
            raise TypeError(
                f"{where}: a name in Avro has only letters, digits and underscores, and begins with no digit"
            )
        kind = _type(field.type, where, names)
        members.append(
            {"name": field.name, "type": ["null", kind], "default": None}
            if field.nullable
            else {"name": field.name, "type": kind}
        )
    return {"type": "record", "name": name, "fields": members}


def _type(arrow: pa.DataType, path: str, names: set[str]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    is_ = pa.types
    if is_.is_dictionary(arrow):
        return _type(arrow.value_type, path, names)
    if is_.is_struct(arrow):
        return _record(list(arrow), _free(f"Record_{path}", names), path, names)
    if is_.is_map(arrow) and (is_.is_string(arrow.key_type) or is_.is_large_string(arrow.key_type)):
        return {"type": "map", "values": _item(arrow.item_field, f"{path}{{}}", names)}
    if is_.is_list(arrow) or is_.is_large_list(arrow) or is_.is_fixed_size_list(arrow):
        return {"type": "array", "items": _item(arrow.value_field, f"{path}[]", names)}
    kind = _plain(arrow)
    if kind is None:
        raise TypeError(f"{path}: {arrow} is no type of a topic's columns")
    return kind


def _plain(arrow: pa.DataType) -> Any:
    """Return the Avro type of values without parts; None if there is none."""
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    is_ = pa.types
    if is_.is_uint64(arrow):
        return _decimal(_UINT64_DIGITS, 0)
    if is_.is_decimal(arrow):
        return _decimal(arrow.precision, arrow.scale) if arrow.precision <= _DECIMAL_DIGITS_MAX else None
    if is_.is_integer(arrow):
        return "int" if arrow.bit_width < _INT_BITS or arrow.equals(pa.int32()) else "long"
    if is_.is_floating(arrow):
        return "double" if arrow.bit_width == _LONG_BITS else "float"
    kinds = {
        "boolean": (is_.is_boolean,),
        "string": (is_.is_string, is_.is_large_string, is_.is_string_view),
        "bytes": (is_.is_binary, is_.is_large_binary, is_.is_binary_view, is_.is_fixed_size_binary),
    }
    if is_.is_timestamp(arrow):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if is_.is_date(arrow):
        return {"type": "int", "logicalType": "date"}
    return next((kind for kind, tests in kinds.items() if any(fits(arrow) for fits in tests)), None)


def _decimal(precision: int, scale: int) -> dict[str, Any] | None:
    if scale < 0:
        return None
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _item(field: pa.Field, path: str, names: set[str]) -> Any:
    kind = _type(field.type, path, names)
    return ["null", kind] if field.nullable else kind


def _free(wanted: str, names: set[str]) -> str:
    """Return a name that no other record of the schema has."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
    name, number = plain, 2
    while name in names:
        name, number = f"{plain}_{number}", number + 1
    names.add(name)
    return name
