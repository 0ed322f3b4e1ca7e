"""The columns of a topic's table in the words of Hive (also Glue's and Unity Catalog's ``type_text``) and of Spark.

Every reader of Delta takes columns from the table's own log. A catalog shows them to people, and finds them by search. So what
Hive's type can't say is left out of its text: members with names that are no Hive identifiers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from log_format.records.delta_types import delta_name
from log_format.records.typed_columns import TypedColumns, record_schema
from log_format.topic.table_columns import table_schema_string

_HIVE_NAMES: Final = {"integer": "int", "long": "bigint"}
"""Delta's names of types that have another one in Hive."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_]+")
COMMENTS: Final = {
    "partition": "Number of the partition",
    "offset": "Number of the record within its partition",
    "timestamp": "When the record was made, or came in",
    "key": "The record's key",
    "value": "The record's value",
    "headers": "The record's headers",
    "data": "The value by its schema",
    "data_error": "Why the value has no data",
    "key_data": "The key by its schema",
    "key_data_error": "Why the key has no data",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column. ``hive_type``: such as ``array<struct<sku:string>>``. ``spark_field``: its field in Spark's JSON of a schema."""

    name: str
    hive_type: str
    spark_field: str
    comment: str


@lru_cache(maxsize=1_000)
def catalog_columns(typed: TypedColumns) -> tuple[Column, ...]:
    """Return the columns of a table with these typed columns, without those that Hive's types can't say."""
    fields = msgspec.json.decode(table_schema_string(typed))["fields"]
    columns = []
    for arrow, field in zip(record_schema(typed), fields, strict=True):
        hive_type = _hive_type(arrow.type)
        if hive_type is not None:
            text = msgspec.json.encode(field).decode()
            columns.append(
                Column(name=arrow.name, hive_type=hive_type, spark_field=text, comment=COMMENTS.get(arrow.name, ""))
            )
    return tuple(columns)


def _hive_type(arrow: pa.DataType) -> str | None:
    """Return the type in Hive's words; None if nothing of it can be said."""
    if pa.types.is_list(arrow):
        item = _hive_type(arrow.value_type)
        return None if item is None else f"array<{item}>"
    if pa.types.is_map(arrow):
        key, item = _hive_type(arrow.key_type), _hive_type(arrow.item_type)
        return None if key is None or item is None else f"map<{key},{item}>"
    if pa.types.is_struct(arrow):
        members: dict[str, str] = {}
        for one in arrow:
            kind = _hive_type(one.type) if _IDENTIFIER.fullmatch(one.name) else None
            if kind is not None and one.name.lower() not in members:  # Hive ignores case
                members[one.name.lower()] = f"{one.name}:{kind}"
        return f"struct<{','.join(members.values())}>" if members else None
    name = delta_name(arrow)
    return _HIVE_NAMES.get(name, name)
