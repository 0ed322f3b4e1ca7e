"""JSON Schema: the rules for objects and their properties, and for arrays and their items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from log_format.schemas.compatibility.incompatibility import Finding
from log_format.schemas.compatibility.pairs import Demand, Holds, TooComplexError
from log_format.schemas.json_nodes import JsonNode
from log_format.schemas.parsed import InvalidSchema
from log_format.schemas.parsing_json import Draft, matches

Pair = tuple[JsonNode, JsonNode]
"""A new node and an old one."""
Found = Finding | Demand[Pair]

_NOTHING: Final[frozenset[str]] = frozenset()


def object_rules(new: JsonNode, old: JsonNode, holds: Holds[Pair]) -> Iterator[Found]:
    """Yield what is wrong with a new schema of objects, and what must hold of their members."""
    names, before = new.children("properties"), old.children("properties")
    required, was_required = _required(new), _required(old)
    for name in before.keys() & names.keys():
        if name in required and name not in was_required and not _has_default(new, name):
            yield Finding("REQUIRED_ATTRIBUTE_ADDED", ("required", name))
    for name in dict.fromkeys((*before, *names)):
        path = ("properties", name)
        if name not in names:
            yield from _removed(before[name], _said_of(new, name), path, holds, is_open=_is_open(new), what="PROPERTY")
        elif name in before:
            yield Demand((names[name], before[name]), path)
        elif not (_is_open(old) and names[name].kind == "empty"):
            yield from _added_property(new, old, name, holds)
    yield from _dependencies(new, old)
    yield from _additional(new, old, "additionalProperties", "ADDITIONAL_PROPERTIES")
    yield from _unevaluated(new, old, "unevaluatedProperties", "UNEVALUATED_PROPERTIES")


def _added_property(new: JsonNode, old: JsonNode, name: str, holds: Holds[Pair]) -> Iterator[Found]:
    path = ("properties", name)
    is_needed = name in _required(new)
    has_default = _has_default(new, name)
    if _is_open(old):
        kind = (
            ("REQUIRED_PROPERTY_WITH_DEFAULT" if has_default else "REQUIRED_PROPERTY")
            if is_needed
            else "OPTIONAL_PROPERTY"
        )
        yield Finding(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", path)
        return
    said = _said_of(old, name)
    if said is not None and not holds((new.children("properties")[name], said)):
        yield Demand((new.children("properties")[name], said), path)
        yield Finding("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    if is_needed and not has_default:
        yield Finding("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)


def _removed(
    before: JsonNode, said: JsonNode | None, path: tuple[str, ...], holds: Holds[Pair], *, is_open: bool, what: str
) -> Iterator[Found]:
    """Yield what is wrong with leaving out a property or an item, where ``said`` is what the new schema says of it now."""
    if is_open:
        return
    if said is not None:
        if not holds((said, before)):
            yield Demand((said, before), path)
            yield Finding(f"{what}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    elif before.kind != "false":
        yield Finding(f"{what}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)


def _dependencies(new: JsonNode, old: JsonNode) -> Iterator[Found]:
    lists, were_lists = _dependency_lists(new), _dependency_lists(old)
    for name, names in lists.items():
        path = ("dependencies", name)
        before = were_lists.get(name)
        if before is None:
            yield Finding("DEPENDENCY_ARRAY_ADDED", path)
        elif not names <= before:
            yield Finding("DEPENDENCY_ARRAY_EXTENDED" if names > before else "DEPENDENCY_ARRAY_CHANGED", path)
    schemas, were_schemas = _dependency_schemas(new), _dependency_schemas(old)
    for name, schema in schemas.items():
        path = ("dependencies", name)
        if name in were_schemas:
            yield Demand((schema, were_schemas[name]), path)
        else:
            yield Finding("DEPENDENCY_SCHEMA_ADDED", path)


def _dependency_lists(node: JsonNode) -> dict[str, frozenset[str]]:
    found = {}
    for keyword in ("dependencies", "dependentRequired"):
        value = node.value.get(keyword)
        if isinstance(value, dict):
            found.update({name: frozenset(names) for name, names in value.items() if isinstance(names, list)})
    return found


def _dependency_schemas(node: JsonNode) -> dict[str, JsonNode]:
    return {**node.children("dependencies"), **node.children("dependentSchemas")}


def array_rules(new: JsonNode, old: JsonNode, holds: Holds[Pair]) -> Iterator[Found]:
    """Yield what is wrong with a new schema of arrays, and what must hold of their items."""
    each, each_before = _each_item(new), _each_item(old)
    if each is not None:
        yield Finding("SCHEMA_ADDED", ("items",)) if each_before is None else Demand((each, each_before), ("items",))
    items, before = _first_items(new), _first_items(old)
    for index in range(max(len(items), len(before))):
        path = ("items", str(index))
        if index >= len(items):
            yield from _removed(
                before[index], _said_of_items(new), path, holds, is_open=_has_open_items(new), what="ITEM"
            )
        elif index < len(before):
            yield Demand((items[index], before[index]), path)
        elif _has_open_items(old):
            if items[index].kind != "empty":
                yield Finding("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", path)
        elif (said := _said_of_items(old)) is not None and not holds((items[index], said)):
            yield Demand((items[index], said), path)
            yield Finding("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
    yield from _additional(new, old, "additionalItems", "ADDITIONAL_ITEMS")
    yield from _unevaluated(new, old, "unevaluatedItems", "UNEVALUATED_ITEMS")


def _additional(new: JsonNode, old: JsonNode, keyword: str, name: str) -> Iterator[Found]:
    allowed, was_allowed = _other(new, keyword), _other(old, keyword)
    if allowed is False:
        if was_allowed is not False:
            yield Finding(f"{name}_REMOVED", (keyword,))
    elif was_allowed is not False and isinstance(allowed, JsonNode):
        if isinstance(was_allowed, JsonNode):
            yield Demand((allowed, was_allowed), (keyword,))
        else:
            yield Finding(f"{name}_NARROWED", (keyword,))


def _unevaluated(new: JsonNode, old: JsonNode, keyword: str, name: str) -> Iterator[Found]:
    allowed, was_allowed = _unevaluated_of(new, keyword), _unevaluated_of(old, keyword)
    if allowed is None:
        return
    if allowed.kind == "false":
        if was_allowed is None or was_allowed.kind != "false":
            yield Finding(f"{name}_REMOVED", (keyword,))
    elif was_allowed is None or (was_allowed.kind == "empty" and allowed.kind != "empty"):
        yield Finding(f"{name}_NARROWED", (keyword,))
    elif was_allowed.kind != "false" and allowed.kind != "empty":
        yield Demand((allowed, was_allowed), (keyword,))


def _other(node: JsonNode, keyword: str) -> JsonNode | bool:
    """Return what is said of members that are not named: True: anything; False: there are none; or their schema."""
    if keyword == "additionalItems" and _has_items_for_rest(node):
        keyword = "items"
    value = node.value.get(keyword, True)
    if isinstance(value, bool):
        return value
    return node.child(keyword) or True


def _unevaluated_of(node: JsonNode, keyword: str) -> JsonNode | None:
    return node.child(keyword) if node.document.draft.is_modern else None


def _is_open(node: JsonNode) -> bool:
    return _allows_all(node, "additionalProperties", "unevaluatedProperties") and not node.value.get(
        "patternProperties"
    )


def _has_open_items(node: JsonNode) -> bool:
    return _allows_all(node, "additionalItems", "unevaluatedItems")


def _allows_all(node: JsonNode, keyword: str, unevaluated: str) -> bool:
    left = _unevaluated_of(node, unevaluated)
    return _other(node, keyword) is True and (left is None or left.kind == "empty")


def _said_of(node: JsonNode, name: str) -> JsonNode | None:
    """Return the schema of a property that is not named, where the content model is partially open."""
    for pattern, schema in node.children("patternProperties").items():
        node.document.matches_left -= 1 + (len(pattern) + len(name)) // 100
        if node.document.matches_left < 0:
            raise TooComplexError
        try:
            if matches(pattern, name):
                return schema
        except InvalidSchema:  # too much for this name: nothing is known of it, so nothing covers it
            return node.document.node(False)
    return _said_of_rest(node, "additionalProperties", "unevaluatedProperties")


def _said_of_items(node: JsonNode) -> JsonNode | None:
    return _said_of_rest(node, "additionalItems", "unevaluatedItems")


def _said_of_rest(node: JsonNode, keyword: str, unevaluated: str) -> JsonNode | None:
    other = _other(node, keyword)
    if isinstance(other, JsonNode):
        return other
    left = _unevaluated_of(node, unevaluated)
    return left if other is True and left is not None and left.kind not in {"false", "empty"} else None


def _each_item(node: JsonNode) -> JsonNode | None:
    return None if _has_items_for_rest(node) else node.child("items")


def _has_items_for_rest(node: JsonNode) -> bool:
    """Tell whether ``items`` is what ``additionalItems`` was before 2020-12."""
    is_rest = "prefixItems" in node.value or isinstance(node.value.get("items"), bool)
    return is_rest and node.document.draft is Draft.DRAFT_2020_12


def _first_items(node: JsonNode) -> list[JsonNode]:
    keyword = "prefixItems" if node.document.draft is Draft.DRAFT_2020_12 else "items"
    value: Any = node.value.get(keyword)
    return [node.document.node(each) for each in value] if isinstance(value, list) else []


def _required(node: JsonNode) -> frozenset[str]:
    value = node.value.get("required")
    return frozenset(value) if isinstance(value, list) else _NOTHING


def _has_default(node: JsonNode, name: str) -> bool:
    schema = node.value["properties"][name]
    return isinstance(schema, dict) and "default" in schema
