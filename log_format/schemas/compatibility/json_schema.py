"""JSON Schema: whether all that is valid by an old schema is valid by a new one, by Confluent's rules.

The rules are about what schemas say, not about sets of values: a change that no rule allows is incompatible, whether or not
some value shows it. For objects and arrays it matters what they say of members that they do not name, their content model:
open (anything), closed (nothing) or partially open (what a schema of its own says). A property may be added where the old model
was closed, and left out where the new one is open; else it must fit what was said of it.

``if``, ``contains``, ``propertyNames``, the schemas of ``patternProperties`` and a required property without a schema are not
compared, as by Confluent.

Source: Confluent's documentation, "Schema Evolution and Compatibility" for JSON Schema, and ``json-schema-provider``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from log_format.schemas.compatibility.incompatibility import Finding
from log_format.schemas.compatibility.json_keywords import keyword_findings
from log_format.schemas.compatibility.json_members import Found, Pair, array_rules, object_rules
from log_format.schemas.compatibility.matching import largest_matching
from log_format.schemas.compatibility.pairs import Holds, Pairs
from log_format.schemas.json_nodes import JsonNode, JsonNodes
from log_format.schemas.parsing_json import JsonSchema

_BYTES: Final = "bytes"


def json_findings(reader: JsonSchema, writer: JsonSchema) -> list[Finding]:
    """Return why what is valid by the writer's schema may not be by the reader's; empty: it is."""
    return Pairs[Pair](_rules, _weight).findings((JsonNodes(reader).root, JsonNodes(writer).root))


def _weight(pair: Pair) -> int:
    return sum(node.size for node in pair) // 2


def _rules(pair: Pair, holds: Holds[Pair]) -> Iterator[Found]:
    new, old = pair
    if _is_one_of(new, old, holds):
        return
    if new.kind != old.kind:
        may = old.kind == "false" or new.kind == "empty" or _connect_type(new) == _connect_type(old) == _BYTES
        if not may:
            yield Finding("TYPE_CHANGED")
        return
    yield from keyword_findings(new.kind, new.value, old.value)
    match new.kind:
        case "number" if new.is_integer and not old.is_integer:
            yield Finding("TYPE_NARROWED")
        case "const" if not _same(new.value["const"], old.value["const"]):
            yield Finding("ENUM_ARRAY_CHANGED", ("const",))
        case "enum":
            yield from _enums(new, old)
        case "not":
            inner, inner_before = new.child("not"), old.child("not")
            if inner is not None and inner_before is not None and not holds((inner_before, inner)):
                yield Finding("NOT_TYPE_EXTENDED", ("not",))
        case "combined":
            yield from _combined(new, old, holds)
        case "object":
            yield from object_rules(new, old, holds)
        case "array":
            yield from array_rules(new, old, holds)


def _is_one_of(new: JsonNode, old: JsonNode, holds: Holds[Pair]) -> bool:
    """Return whether only one of the schemas is a combination, and one part of it suffices and is compatible with the other."""
    if new.kind == "combined" and old.kind != "combined":
        enough = len(new.parts) == 1 or new.criterion in {"anyOf", "oneOf"}
        return enough and any(holds((new.document.node(part), old)) for part in new.parts)
    if old.kind == "combined" and new.kind != "combined":
        enough = len(old.parts) == 1 or old.criterion == "allOf"
        return enough and any(holds((new, old.document.node(part))) for part in old.parts)
    return False


def _connect_type(node: JsonNode) -> Any:
    return node.value.get("connect.type")


def _enums(new: JsonNode, old: JsonNode) -> Iterator[Finding]:
    values, before = _values(new), _values(old)
    if not values >= before:
        yield Finding("ENUM_ARRAY_NARROWED" if values < before else "ENUM_ARRAY_CHANGED", ("enum",))


def _values(node: JsonNode) -> frozenset[bytes]:
    return frozenset(node.document.fingerprint(value) for value in node.value["enum"])


def _same(one: Any, other: Any) -> bool:
    """Compare JSON values. ``True`` is not 1, as it is in Python."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _combined(new: JsonNode, old: JsonNode, holds: Holds[Pair]) -> Iterator[Found]:
    if not _may_become(old, new):
        yield Finding("COMBINED_TYPE_CHANGED")
        return
    parts, before = _parts(new), _parts(old)
    if len(before) < len(parts) and new.criterion == "allOf":
        yield Finding("PRODUCT_TYPE_EXTENDED")
    elif len(before) > len(parts) and old.criterion != "allOf":
        yield Finding("SUM_TYPE_NARROWED")
    ours, theirs = list(parts.values()), list(before.values())
    count = largest_matching(
        len(before),
        len(parts),
        lambda one, other: holds((ours[other], theirs[one])),
    )
    if count < min(len(parts), len(before)):
        yield Finding("COMBINED_TYPE_SUBSCHEMAS_CHANGED")


def _may_become(old: JsonNode, new: JsonNode) -> bool:
    is_single, was_single = len(new.parts) == 1, len(old.parts) == 1
    return (
        new.criterion in {old.criterion, "anyOf"}
        or (is_single and was_single)
        or (was_single and new.criterion == "oneOf")
        or (is_single and old.criterion == "allOf")
    )


def _parts(node: JsonNode) -> Mapping[bytes, JsonNode]:
    """Return the parts by their fingerprint: equal ones count once."""
    return {node.document.fingerprint(part): node.document.node(part) for part in node.parts}
