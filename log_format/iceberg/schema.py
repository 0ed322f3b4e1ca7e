"""The Iceberg schema of a topic's table: field ids, and the name mapping for files, which have none.

1. Ids follow from names alone. So every gateway gives a member the same id at any time, and no gateway has to remember any:
   Tidelog's own columns have the ids 1 to 9, a member of a typed column a hash of its path.
2. Members only ever come (docs/format/tables.md, section 3). If two paths have one hash, the later one in the schema's order
   takes the next free id; a member that comes later might then push another one away. Manifests name columns by id, so manifests
   that were made with other ids are not used again (``are_kept``).
3. All columns are optional, as in Delta's schema.

Source: Iceberg table spec, "Schemas and Data Types", "Column Projection", "Name Mapping Serialization".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa

from log_format.records.delta_types import delta_name
from log_format.records.typed_columns import TypedColumns, record_schema

Path = tuple[str, ...]
"""Names from a column down to a member. The items of a list are ``element``, those of a map ``key`` and ``value``."""

_OWN_IDS: Final[Mapping[Path, int]] = {
    ("partition",): 1,
    ("offset",): 2,
    ("timestamp",): 3,
    ("key",): 4,
    ("value",): 5,
    ("headers",): 6,
    ("headers", "element"): 7,
    ("headers", "element", "key"): 8,
    ("headers", "element", "value"): 9,
}
PARTITION_ID: Final = 1
OFFSET_ID: Final = 2
FIRST_HASHED_ID: Final = 1_000
HASHED_IDS: Final = 2**31 - 1_000 - 10_000
"""Number of ids for members. Iceberg's own columns have the highest ids."""
_ICEBERG_NAMES: Final = {"integer": "int", "timestamp": "timestamptz"}
"""Delta's names of types that have another one in Iceberg."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's schema. ``ids``: of every field, by path. ``types``: Arrow's types of the fields without parts, by path."""

    columns: TypedColumns
    ids: Mapping[Path, int]
    types: Mapping[Path, pa.DataType]

    @property
    def schema_id(self) -> int:
        """Number of the schema: it grows with each member."""
        return len(self.ids) - len(_OWN_IDS)

    @property
    def last_column_id(self) -> int:
        """The highest id."""
        return max(self.ids.values())

    def document(self) -> dict[str, Any]:
        """Return the schema as in Iceberg's metadata."""
        return {
            "type": "struct",
            "schema-id": self.schema_id,
            "fields": _fields(record_schema(self.columns), (), self.ids),
        }

    def name_mapping(self) -> str:
        """Return the value of the property ``schema.name-mapping.default``."""
        return msgspec.json.encode(_mapping(record_schema(self.columns), (), self.ids)).decode()


@lru_cache(maxsize=256)
def table_schema(columns: TypedColumns) -> TableSchema:
    """Return the schema of a table with these typed columns."""
    types: dict[Path, pa.DataType] = {}
    ids: dict[Path, int] = {}
    for field in record_schema(columns):
        _collect((field.name,), field.type, ids, types)
    taken = set(_OWN_IDS.values())
    for path in ids:
        ids[path] = number = _OWN_IDS.get(path) or _hashed_id(path, taken)
        taken.add(number)
    return TableSchema(columns, ids, types)


def are_kept(before: Mapping[Path, int], now: Mapping[Path, int]) -> bool:
    """Return whether each field that was there before has the id that it had."""
    return all(now.get(path) == number for path, number in before.items())


def _hashed_id(path: Path, taken: set[int]) -> int:
    digest = hashlib.sha256("\0".join(path).encode()).digest()
    number = int.from_bytes(digest[:8]) % HASHED_IDS
    while FIRST_HASHED_ID + number in taken:
        number = (number + 1) % HASHED_IDS
    return FIRST_HASHED_ID + number


def _parts(arrow: pa.DataType) -> list[tuple[str, pa.DataType]]:
    if pa.types.is_list(arrow):
        return [("element", arrow.value_type)]
    if pa.types.is_map(arrow):
        return [("key", arrow.key_type), ("value", arrow.item_type)]
    return [(field.name, field.type) for field in arrow] if pa.types.is_struct(arrow) else []


def _collect(path: Path, arrow: pa.DataType, ids: dict[Path, int], types: dict[Path, pa.DataType]) -> None:
    ids[path] = 0
    parts = _parts(arrow)
    if not parts and not pa.types.is_struct(arrow):
        types[path] = arrow
    for name, kind in parts:
        _collect((*path, name), kind, ids, types)


def _fields(fields: Any, above: Path, ids: Mapping[Path, int]) -> list[dict[str, Any]]:
    return [
        {
            "id": ids[(*above, one.name)],
            "name": one.name,
            "required": False,
            "type": _type(one.type, (*above, one.name), ids),
        }
        for one in fields
    ]


def _type(arrow: pa.DataType, path: Path, ids: Mapping[Path, int]) -> Any:
    if pa.types.is_list(arrow):
        below = (*path, "element")
        return {
            "type": "list",
            "element-id": ids[below],
            "element": _type(arrow.value_type, below, ids),
            "element-required": False,
        }
    if pa.types.is_map(arrow):
        key, value = (*path, "key"), (*path, "value")
        return {
            "type": "map",
            "key-id": ids[key],
            "key": _type(arrow.key_type, key, ids),
            "value-id": ids[value],
            "value": _type(arrow.item_type, value, ids),
            "value-required": False,
        }
    if pa.types.is_struct(arrow):
        return {"type": "struct", "fields": _fields(arrow, path, ids)}
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision}, {arrow.scale})"
    name = delta_name(arrow)
    return _ICEBERG_NAMES.get(name, name)


def _mapping(fields: Any, above: Path, ids: Mapping[Path, int]) -> list[dict[str, Any]]:
    return [_mapped((*above, one.name), one.type, ids) for one in fields]


def _mapped(path: Path, arrow: pa.DataType, ids: Mapping[Path, int]) -> dict[str, Any]:
    below = [_mapped((*path, name), kind, ids) for name, kind in _parts(arrow)]
    return {"field-id": ids[path], "names": [path[-1]]} | ({"fields": below} if below else {})
