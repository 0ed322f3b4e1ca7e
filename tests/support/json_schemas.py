"""JSON Schemas for property tests: a schema and a change of it, and values that may fit."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_NAMES = ("a", "b", "c")


@st.composite
def schema_and_change(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A schema of usual keywords, and the same with some things changed; some changes are compatible."""
    return _objects(draw, depth) if draw(st.integers(0, 3)) else _pair(draw, depth)


def _pair(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    if not _mostly(draw):
        return _one(draw, depth), _one(draw, depth)
    match draw(
        st.sampled_from(["number", "string", "enum", *(["object", "array", "oneOf", "anyOf"] if depth > 1 else [])])
    ):
        case "number":
            return _bounded(draw, {"type": "number"}, "minimum", "maximum")
        case "string":
            return _bounded(draw, {"type": "string"}, "minLength", "maxLength")
        case "enum":
            values = st.lists(st.sampled_from(["x", 1, None, True]), min_size=1, unique_by=repr)
            old_values = draw(values)
            return {"enum": old_values}, {"enum": old_values if _mostly(draw) else draw(values)}
        case "array":
            old, new = _bounded(draw, {"type": "array"}, "minItems", "maxItems")
            items, new_items = _pair(draw, depth - 1)
            return {**old, "items": items}, {**new, "items": new_items} if _mostly(draw) else new
        case "object":
            return _objects(draw, depth)
        case criterion:
            parts, new_parts = zip(*(_pair(draw, depth - 1) for _ in range(draw(st.integers(1, 2)))), strict=True)
            more = [_one(draw, depth - 1)] if draw(st.booleans()) else []
            return {criterion: list(parts)}, {"anyOf": [*new_parts, *more]}


def _mostly(draw: st.DrawFn) -> bool:
    """True, but for one time in five: with few changes, a pair is often compatible but for one of them."""
    return draw(st.integers(0, 4)) > 0


def _one(draw: st.DrawFn, depth: int) -> Any:
    return (
        _pair(draw, depth)[0] if draw(st.booleans()) else draw(st.sampled_from([{}, True, False, {"type": "integer"}]))
    )


def _bounded(draw: st.DrawFn, kind: Any, least: str, most: str) -> tuple[Any, Any]:
    pairs = [dict(kind), dict(kind)]
    for each in pairs:
        for keyword in (least, most):
            if draw(st.booleans()):
                each[keyword] = draw(st.integers(0, 2))
    return pairs[0], pairs[0] if _mostly(draw) else pairs[1]


def _objects(draw: st.DrawFn, depth: int) -> tuple[Any, Any]:
    old: dict[str, Any] = {"type": "object", "properties": {}}
    new: dict[str, Any] = {"type": "object", "properties": {}}
    for name in draw(st.lists(st.sampled_from(_NAMES), unique=True)):
        one, other = _pair(draw, depth - 1)
        where = "both" if _mostly(draw) else draw(st.sampled_from(["old", "new"]))
        if where != "new":
            old["properties"][name] = one
        if where != "old":
            new["properties"][name] = other
    needed = [name for name in old["properties"] if draw(st.booleans())]
    for each in (old, new):
        each["required"] = needed if _mostly(draw) else sorted(each["properties"])[:1]
        each["required"] = [name for name in each["required"] if name in each["properties"]]
    # A property that is new, required and without a schema is not compared, as in Confluent's registry.
    added = [
        name for name in new["required"] if name not in old["properties"] and new["properties"][name] in ({}, True)
    ]
    new["required"] = [name for name in new["required"] if name not in added]
    if draw(st.booleans()):
        rest, new_rest = _pair(draw, depth - 1) if draw(st.booleans()) else (False, False)
        old["additionalProperties"] = rest
        if _mostly(draw):
            new["additionalProperties"] = new_rest
    elif not _mostly(draw):
        new["additionalProperties"] = False
    return old, new


_LEAVES = st.sampled_from([None, True, "x", "", "xyz", 0, 1, 2.5, 3])


@st.composite
def value_for(draw: st.DrawFn, schema: Any) -> Any:
    """A value that fits a schema of these often."""
    return _value(draw, schema)


def _value(draw: st.DrawFn, schema: Any) -> Any:
    if not isinstance(schema, dict) or not schema:
        return draw(_LEAVES)
    for criterion in ("oneOf", "anyOf"):
        if criterion in schema:
            return _value(draw, draw(st.sampled_from(schema[criterion])))
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    match schema["type"]:
        case "object":
            return _members(draw, schema)
        case "array":
            return [_value(draw, schema.get("items")) for _ in range(draw(st.integers(0, 3)))]
        case "string":
            return "xyz"[: draw(st.integers(0, 3))]
    return draw(st.integers(-1, 3))


def _members(draw: st.DrawFn, schema: Any) -> dict[str, Any]:
    members = {}
    for name in _NAMES:
        said = schema["properties"].get(name, schema.get("additionalProperties"))
        if name in schema["required"] or (said is not False and draw(st.booleans())):
            members[name] = _value(draw, said)
    return members
