"""A topic as a table of DuckDB: its columns, which topics a statement names, and what a value is in JSON.

Every process that answers SQL about topics uses this, so that a statement means the same everywhere. This module does not
import DuckDB itself.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

COLUMNS: Final = """
    select topic, partition, "offset", timestamp, try(decode("key")) as "key", try(decode("value")) as "value", headers,
           "key" as key_bytes, "value" as value_bytes
    from {raw}
"""
"""Over a table with a topic's name and then its columns: key and value as text, null where the bytes are no UTF-8."""


def quoted(name: str) -> str:
    """As an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def parsed(database: Any, statement: str) -> Any:
    """What DuckDB's parser makes of a statement, as ``json_serialize_sql`` tells it; ``database``: a connection.

    Where it is no query there is a member ``error``, with words in ``error_message``.
    """
    ((found,),) = database.execute("select json_serialize_sql(?)", [statement]).fetchall()
    return msgspec.json.decode(found)


def nodes(tree: Any) -> list[dict[str, Any]]:
    """All objects of a parsed statement."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            found.append(node)
            left += node.values()
        elif isinstance(node, list):
            left += node
    return found


def topics_named(tree: Any) -> list[str]:
    """The tables of a parsed statement, but for its own (``with``), by name: there are no others than topics."""
    tables, own = set[str](), set[str]()
    for node in nodes(tree):
        if node.get("type") == "BASE_TABLE":
            tables.add(node["table_name"])
        own |= {entry["key"].lower() for entry in (node.get("cte_map") or {}).get("map", ())}
    return sorted(name for name in tables if name.lower() not in own)


def plain(value: Any) -> Any:
    """A value of DuckDB as JSON has it: bytes as text where they are UTF-8, what JSON has no word for as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
