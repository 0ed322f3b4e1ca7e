"""JSON Schemas with allOf, oneOf, anyOf and not, for property tests: any schema, documents, and their columns."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from log_format.schemas.columns.shape import ListOf, MapOf, Record, Shape

_LEAVES = [
    *({"type": kind} for kind in ("integer", "string", "boolean", "number")),
    {"type": "integer", "minimum": 3},
    {"type": ["string", "null"], "maxLength": 2},
    {"type": "string", "enum": ["a", "b"]},
    {"type": "integer", "not": {"const": 2}},
]
_NAMES = ("a", "b", "c", "kind")


@st.composite
def _parts(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    match (
        draw(st.sampled_from(["leaf", "leaf", "object", "list", "allOf", "choice", "rules"])) if depth < 3 else "leaf"
    ):
        case "object":
            return draw(_objects(depth))
        case "list":
            return {"type": "array", "items": draw(_parts(depth + 1))}
        case "allOf":
            return {"allOf": [draw(_objects(depth)), draw(_objects(depth, typed=draw(st.booleans())))]}
        case "choice":
            return draw(_choices(depth))
        case "rules":
            rule = st.sampled_from([{"required": ["a"]}, {"required": ["b"]}, {"not": {"required": ["c"]}}])
            found = draw(_objects(depth)) | {draw(st.sampled_from(["oneOf", "anyOf"])): [draw(rule), draw(rule)]}
            return found | ({"not": {"required": ["kind"]}} if draw(st.booleans()) else {})
    return draw(st.sampled_from(_LEAVES))


@st.composite
def _objects(draw: st.DrawFn, depth: int = 0, *, typed: bool = True) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True))
    found: dict[str, Any] = {"properties": {name: draw(_parts(depth + 1)) for name in names}}
    found["required"] = draw(st.lists(st.sampled_from(names), unique=True))
    if draw(st.integers(0, 4)) == 0:
        found["additionalProperties"] = False
    return found | ({"type": "object"} if typed else {})


@st.composite
def _choices(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    branches: list[dict[str, Any]] = draw(
        st.lists(st.sampled_from(_LEAVES), max_size=2, unique_by=lambda one: json.dumps(one["type"]))
    )
    for name in draw(st.lists(st.sampled_from(["X", "Y", "Z"]), max_size=3, unique=True)):
        branch = draw(_objects(depth + 1)) | {"title": name}
        if draw(st.booleans()):
            branch["properties"]["kind"] = {"type": "string", "const": name}
        branches.append(branch)
    if draw(st.booleans()):
        branches.append({"type": "null"})
    assume(branches)
    return {draw(st.sampled_from(["oneOf", "anyOf"])): branches}


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "X", "Y", "long", 0.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*_NAMES, "z"]), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def documents(draw: st.DrawFn, schema: Any) -> Any:
    """Draw a document that is mostly of the schema."""
    if draw(st.integers(0, 11)) == 0:
        return draw(_ANY)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    for keyword in ("oneOf", "anyOf"):
        if keyword in schema and "properties" not in schema:
            return draw(documents(draw(st.sampled_from(schema[keyword]))))
    found: dict[str, Any] = {}
    for part in schema.get("allOf", [schema]):
        for name, one in part.get("properties", {}).items():
            if name in part.get("required", ()) or draw(st.booleans()):
                found[name] = draw(documents(one))
    if found or "properties" in schema or "allOf" in schema:
        return found
    match schema["type"]:
        case "array":
            return draw(st.lists(documents(schema["items"]), max_size=2))
        case "integer":
            return draw(st.integers(-3, 9))
        case "number":
            return draw(st.integers(-3, 9) | st.sampled_from([0.5, -2.25]))
        case "boolean":
            return draw(st.booleans())
        case "string":
            return draw(st.sampled_from(["", "a", "b", "X", "long"]))
    return None


def members(shape: Shape, document: Any) -> Any:
    """What the column of a valid document must be."""
    if document is None:
        return None
    if isinstance(shape, Record) and shape.is_union:
        taking = [member for member in shape.members if member.is_of is None or member.is_of(document)]
        return {
            member.name: members(member.shape, document) if member is taking[0] else None for member in shape.members
        }
    if isinstance(shape, Record):
        return {member.name: members(member.shape, document.get(member.name)) for member in shape.members}
    if isinstance(shape, ListOf):
        return [members(shape.item, one) for one in document]
    if isinstance(shape, MapOf):
        return [(name, members(shape.value, one)) for name, one in document.items()]
    return document


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Draw a schema of objects; some can't be columns."""
    return st.one_of(_objects(), _choices(0), st.builds(lambda *both: {"allOf": [*both]}, _objects(), _objects()))
