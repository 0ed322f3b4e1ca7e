"""A topic as a table of DuckDB: its columns, the topics that a statement names, and values as JSON.

Every process that answers SQL about topics uses this module, so that a statement means the same everywhere. The module does not
import DuckDB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

_TOPIC_QUERY: Final = """
    select topic, partition, "offset", timestamp, try(decode("key")) as "key", try(decode("value")) as "value", headers,
           "key" as key_bytes, "value" as value_bytes{typed}
    from {raw}
"""


def topic_query(raw: str, typed: Iterable[str] = ()) -> str:
    """Return the query over a table with a topic's name and columns; ``typed``: names of its typed columns.

    Key and value become text, or null if the bytes are not UTF-8.
    """
    return _TOPIC_QUERY.format(raw=raw, typed="".join(f", {name}" for name in typed))


def quote_identifier(name: str) -> str:
    """Return the name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def parse_statement(database: Any, statement: str) -> Any:
    """Parse a statement with DuckDB's ``json_serialize_sql``; ``database``: a connection.

    The result has a member ``error``, with a text in ``error_message``, if the statement is not a query.
    """
    ((found,),) = database.execute("select json_serialize_sql(?)", [statement]).fetchall()
    return msgspec.json.decode(found)


def tree_nodes(tree: Any) -> list[dict[str, Any]]:
    """Return all objects of a parsed statement."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            found.append(node)
            left += node.values()
        elif isinstance(node, list):
            left += node
    return found


def tables_read(tree: Any) -> list[str]:
    """Return the tables that a parsed statement reads, sorted, without its own (``with``): all of them must be topics."""
    tables, own = set[str](), set[str]()
    for node in tree_nodes(tree):
        if node.get("type") == "BASE_TABLE":
            tables.add(node["table_name"])
        own |= {entry["key"].lower() for entry in (node.get("cte_map") or {}).get("map", ())}
    return sorted(name for name in tables if name.lower() not in own)


def to_json_value(value: Any) -> Any:
    """Return a value of DuckDB as JSON allows it: bytes decoded as UTF-8 with escapes, values unknown to JSON as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(name): to_json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
