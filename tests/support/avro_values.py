"""Avro schemas that columns can have, and their values as Python objects that equal what readers of the columns give back."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any, Final

import fastavro
from hypothesis import strategies as st

_TEXT: Final = st.text(st.characters(codec="utf-8"), max_size=12)
_DECIMAL: Final = st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Context(prec=50).scaleb(Decimal(n), -4))
_TIME: Final = st.datetimes(timezones=st.just(datetime.UTC))

LEAVES: Final[Sequence[tuple[Any, st.SearchStrategy[Any]]]] = (
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("boolean", st.booleans()),
    ("string", _TEXT),
    ("bytes", st.binary(max_size=12)),
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "long", "logicalType": "timestamp-micros"}, _TIME),
    ({"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}, _DECIMAL),
)


@st.composite
def _type(draw: st.DrawFn, names: list[int], depth: int) -> tuple[Any, st.SearchStrategy[Any]]:
    kinds = ["leaf", "leaf", "optional", *(["record", "array", "map"] if depth < 2 else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        leaf: tuple[Any, st.SearchStrategy[Any]] = draw(st.sampled_from(LEAVES))
        return leaf
    inner, values = draw(_type(names, depth + 1))
    match kind:
        case "record":
            names[0] += 1
            record = {"type": "record", "name": f"T{names[0]}", "fields": [{"name": "inner", "type": inner}]}
            return record, st.fixed_dictionaries({"inner": values})
        case "array":
            return {"type": "array", "items": inner}, st.lists(values, max_size=3)
        case "map":
            return {"type": "map", "values": inner}, st.dictionaries(_TEXT, values, max_size=3)
    return (inner, values) if isinstance(inner, list) else (["null", inner], st.none() | values)


@st.composite
def records(draw: st.DrawFn, *, fields_max: int = 5, values_max: int = 8) -> tuple[str, list[dict[str, Any]]]:
    """A record's schema, and values of it."""
    names = [0]
    parts = [draw(_type(names, 0)) for _ in range(draw(st.integers(1, fields_max)))]
    fields = [{"name": f"f{index}", "type": part[0]} for index, part in enumerate(parts)]
    values = st.fixed_dictionaries({f"f{index}": part[1] for index, part in enumerate(parts)})
    schema = json.dumps({"type": "record", "name": "Top", "fields": fields})
    return schema, draw(st.lists(values, min_size=1, max_size=values_max))


def framed(schema_id: int, schema: str, values: Sequence[Any]) -> list[bytes]:
    """The values as Confluent's serializer writes them."""
    parsed = fastavro.parse_schema(json.loads(schema))
    found = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        found.append(b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue())
    return found


def plain(value: Any) -> Any:
    """A value of Arrow or Spark as it was sent: times in UTC, bytes as bytes."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
    return value
