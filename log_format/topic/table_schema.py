"""The schema of a topic's table: the columns of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


def schema_string(before: Sequence[str] = ()) -> str:
    """The table's schema as Delta writes it, for ``metaData.schemaString``; ``before``: columns of text ahead of a topic's."""
    binary_nullable = {"type": "binary", "nullable": True, "metadata": {}}
    header = {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", **binary_nullable},
        ],
    }
    fields: Iterable[dict[str, object]] = [
        *({"name": name, "type": "string", "nullable": True, "metadata": {}} for name in before),
        {"name": "partition", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "offset", "type": "long", "nullable": True, "metadata": {}},
        {"name": "timestamp", "type": "timestamp", "nullable": True, "metadata": {}},
        {"name": "key", **binary_nullable},
        {"name": "value", **binary_nullable},
        {
            "name": "headers",
            "type": {"type": "array", "elementType": header, "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ]
    return msgspec.json.encode({"type": "struct", "fields": list(fields)}).decode()
