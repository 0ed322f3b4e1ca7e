"""The typed columns of a query's topics, ``data``, ``key_data`` and ``data_error``: what they are when the query is made.

1. They are those of the topics' tables at the time of ``load``. Members that a table gets later are in no column of the query; a
   query that is started again has them.
2. A column that topics of the query have with members of different types is left out, so that their records can be read at all.
3. A query by pattern has no typed columns of itself, since the number of topics has no bound. The caller names columns by
   ``.schema(…)``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from log_format.records.typed_columns import NO_TYPED_COLUMNS, TYPED_NAMES, TypeConflict, TypedColumns, members_to_read
from spark_pipeline.option_refused import OptionRefused
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.options import parse_place
from spark_pipeline.source.topics import Topics
from spark_pipeline.store_access import cached_store


def find_columns(given: Mapping[str, str]) -> TypedColumns:
    """Return the typed columns of the topics that a query's options name. A missing topic has none.

    Raises ``OptionRefused``, ``StoreUnavailable``, ``CorruptData``, ``UnsupportedTable``.
    """
    store, subscription = parse_place(given)
    if subscription.pattern is not None:
        return NO_TYPED_COLUMNS
    topics = Topics(cached_store(store), subscription)
    try:
        found = topics.columns()
    finally:
        topics.close()
    together = NO_TYPED_COLUMNS
    try:
        for columns in found:
            together = together.merged_with(columns)
    except TypeConflict:
        return NO_TYPED_COLUMNS
    return together


def check_schema(schema: StructType, given: Mapping[str, str]) -> StructType:
    """Return the schema after checking that its columns are the Kafka source's, or of the topics' tables, with their types.

    A typed column may have some of the members only. Raises as ``find_columns``.
    """
    if not len(schema):
        raise OptionRefused("schema", "has no column")
    types = {field.name: field.dataType for field in KAFKA_SOURCE}
    for field in schema:
        if field.name not in TYPED_NAMES and types.get(field.name) != field.dataType:
            known = ", ".join(f"{name} {type_.simpleString()}" for name, type_ in types.items())
            raise OptionRefused("schema", f"{field.name} {field.dataType.simpleString()} is none of {known}")
    wanted = [one for one in to_arrow_schema(schema, timezone="UTC") if one.name in TYPED_NAMES]
    if not wanted or parse_place(given)[1].pattern is not None:
        return schema
    stored = {field.name: field.type for field in find_columns(given).fields()}
    for one in wanted:
        if one.name not in stored:
            raise OptionRefused("schema", f"no topic has a column {one.name}, or they contradict each other")
        _check_members(stored[one.name], one.type, one.name)
    return schema


def _check_members(stored: pa.DataType, wanted: pa.DataType, path: str) -> None:
    """Raise ``OptionRefused`` if a wanted member is not stored, or is stored with another type."""
    try:
        part = members_to_read(stored, wanted, path)
    except TypeConflict as conflict:
        raise OptionRefused("schema", f"{conflict}") from conflict
    missing = _missing(part, wanted, path)
    if missing is not None:
        raise OptionRefused("schema", f"the topics' tables have no {missing}")


def _missing(stored: pa.DataType, wanted: pa.DataType, path: str) -> str | None:
    """Return a wanted member that is not stored."""
    if pa.types.is_struct(wanted):
        for field in wanted:
            at = stored.get_field_index(field.name)
            where = f"{path}.{field.name}"
            found = where if at < 0 else _missing(stored.field(at).type, field.type, where)
            if found is not None:
                return found
        return None
    if pa.types.is_list(wanted):
        return _missing(stored.value_type, wanted.value_type, f"{path}[]")
    return _missing(stored.item_type, wanted.item_type, f"{path}{{}}") if pa.types.is_map(wanted) else None
