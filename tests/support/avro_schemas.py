"""Avro schemas for property tests: any schema, the schema as somebody changes it, and values of it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=4).filter(bytes.isascii),
    "string": st.text(st.characters(codec="ascii"), max_size=4),
}


@st.composite
def avro_records(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """A record with up to three fields. Named types have names of their own."""
    names = iter(f"N{index}" for index in range(10_000))
    return _record(draw, names, depth)


def _record(draw: st.DrawFn, names: Any, depth: int) -> dict[str, Any]:
    name = next(names)
    count = draw(st.integers(0, 3))
    fields = [{"name": f"f{index}", "type": _type(draw, names, depth - 1)} for index in range(count)]
    return {"type": "record", "name": name, "fields": fields}


def _type(draw: st.DrawFn, names: Any, depth: int) -> Any:
    choices = ["primitive", "enum", "fixed"] + (["record", "array", "map", "union"] if depth > 0 else [])
    match draw(st.sampled_from(choices)):
        case "primitive":
            return draw(st.sampled_from(PRIMITIVES))
        case "enum":
            return {"type": "enum", "name": next(names), "symbols": list("ABC"[: draw(st.integers(1, 3))])}
        case "fixed":
            return {"type": "fixed", "name": next(names), "size": draw(st.integers(1, 2))}
        case "array":
            return {"type": "array", "items": _type(draw, names, depth - 1)}
        case "map":
            return {"type": "map", "values": _type(draw, names, depth - 1)}
        case "union":
            kinds = draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True))
            return [*kinds, _record(draw, names, depth - 1)] if draw(st.booleans()) else kinds
    return _record(draw, names, depth)


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """The schema after one to three changes, of which some are compatible."""
    schema = copy.deepcopy(schema)
    for number in range(draw(st.integers(1, 3))):
        _change(draw, draw(st.sampled_from(list(_objects(schema)))), f"added{number}")
    return schema


def _objects(schema: Any) -> Any:
    """Each record's field, and each object, that a change can be made to."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _objects(branch)
    elif isinstance(schema, dict):
        yield schema
        for member in (*schema.get("fields", ()), schema.get("items"), schema.get("values")):
            yield from _objects(member)
        if "symbols" not in schema and isinstance(schema["type"], dict | list):
            yield from _objects(schema["type"])


def _change(draw: st.DrawFn, value: dict[str, Any], added: str) -> None:
    if value["type"] == "record":
        fields = value["fields"]
        match draw(st.sampled_from(["add", "default", "remove", "rename"])):
            case "add":
                fields.append({"name": added, "type": "int"})
            case "default":
                fields.append({"name": added, "type": ["null", "int"], "default": None})
            case "remove" if fields:
                fields.pop(draw(st.integers(0, len(fields) - 1)))
            case "rename" if fields:
                field = draw(st.sampled_from(fields))
                field["aliases"] = [field["name"]]
                field["name"] = f"renamed_{added}"
    elif value["type"] == "enum":
        value["symbols"] = list("ABCD"[: draw(st.integers(1, 4))])
        if draw(st.booleans()):
            value["default"] = "A"
    elif value["type"] == "fixed":
        value["size"] = draw(st.integers(1, 2))
    else:
        member = {"array": "items", "map": "values"}.get(str(value["type"]), "type")
        kind = value[member]
        value.pop("default", None)
        if isinstance(kind, str):
            value[member] = draw(st.sampled_from([*PRIMITIVES, ["null", kind] if kind != "null" else kind]))
        elif isinstance(kind, list):
            wider = [*kind, {"type": "array", "items": "int"}] if all(isinstance(each, str) for each in kind) else kind
            value[member] = draw(st.sampled_from([wider, kind[:1], kind[0]]))


@st.composite
def values_of(draw: st.DrawFn, schema: Any) -> Any:
    """A value that can be written with the schema."""
    return _value(draw, schema)


def _value(draw: st.DrawFn, schema: Any) -> Any:
    if isinstance(schema, list):
        return _value(draw, draw(st.sampled_from(schema)))
    kind = schema if isinstance(schema, str) else schema["type"]
    match kind:
        case "enum":
            return draw(st.sampled_from(schema["symbols"]))
        case "fixed":
            return draw(st.binary(min_size=schema["size"], max_size=schema["size"]))
        case "array":
            return [_value(draw, schema["items"]) for _ in range(draw(st.integers(0, 2)))]
        case "map":
            return {str(index): _value(draw, schema["values"]) for index in range(draw(st.integers(0, 2)))}
        case "record":
            return {field["name"]: _value(draw, field["type"]) for field in schema["fields"]}
        case str():
            return draw(_VALUES[kind])
    return _value(draw, kind)
