"""JSON Schema: which kind of values a schema is about, as Confluent's registry sees it.

A JSON Schema is a heap of keywords. To compare two, each is taken as one of a few kinds: of strings, of numbers, of objects and
so on, or a combination of others. A heap of several kinds is a combination of all of them (``allOf``), a list of types one of any
(``anyOf``). Without ``type`` its keywords tell the kind. These are the rules of the library that Confluent's registry uses.

Source: Confluent's ``json-schema-provider``, and the Everit library that it leans on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from log_format.schemas.json_text import encoded
from log_format.schemas.parsing_json import NO_TARGET, JsonSchema

_BY_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "array": frozenset(
        {
            "items",
            "prefixItems",
            "additionalItems",
            "minItems",
            "maxItems",
            "uniqueItems",
            "contains",
            "minContains",
            "maxContains",
            "unevaluatedItems",
        }
    ),
    "object": frozenset(
        {
            "properties",
            "required",
            "minProperties",
            "maxProperties",
            "dependencies",
            "dependentRequired",
            "dependentSchemas",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "unevaluatedProperties",
        }
    ),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
"""By kind: the keywords that make a schema without ``type`` one of it."""

_LARGE: Final[Mapping[str, tuple[str, ...]]] = {
    "object": (
        *("properties", "required", "patternProperties", "dependencies", "dependentRequired", "dependentSchemas"),
    ),
    "array": ("items", "prefixItems"),
    "enum": ("enum",),
}
"""By kind: the keywords of which each member takes time."""

MATCHES_MAX: Final = 20_000
"""Most times that a pattern is tried, long names counted more than once: some seconds."""

CRITERIA: Final = ("allOf", "anyOf", "oneOf")


@dataclass(eq=False, slots=True, kw_only=True)
class JsonNode:
    """One schema, or the part of it that is of one kind. Nodes are compared by identity: there is one for each part.

    ``kind`` is empty (anything), false (nothing), string, number, boolean, null, object, array, enum, const, not or combined.
    ``criterion`` and ``parts`` are a combination's.
    """

    kind: str
    document: JsonNodes
    value: Mapping[str, Any] = field(default_factory=dict)
    is_integer: bool = False
    criterion: str = ""
    parts: tuple[Any, ...] = ()
    """Values of the parts: schemas, or nodes of the same schema's other parts."""

    size: int = field(init=False)
    """How many things its keywords have, about."""

    def __post_init__(self) -> None:
        values = (self.value.get(keyword) for keyword in _LARGE.get(self.kind, ()))
        self.size = len(self.parts) + sum(len(value) for value in values if isinstance(value, list | dict))

    def child(self, keyword: str) -> JsonNode | None:
        """Return the node of the schema that a keyword has; None: the keyword is missing, or has no schema."""
        value = self.value.get(keyword)
        return self.document.node(value) if isinstance(value, dict | bool) else None

    def children(self, keyword: str) -> Mapping[str, JsonNode]:
        """Return the nodes of a keyword's schemas, by name."""
        value = self.value.get(keyword)
        if not isinstance(value, dict):
            return {}
        return {name: self.document.node(each) for name, each in value.items() if isinstance(each, dict | bool)}


class JsonNodes:
    """The nodes of one document and of its references."""

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._nodes: dict[int, JsonNode] = {}
        self._empty = JsonNode(kind="empty", document=self)
        self.matches_left = MATCHES_MAX
        self._false = JsonNode(kind="false", document=self)
        self._fingerprints: dict[int, bytes] = {}
        self.draft: Final = schema.draft

    @property
    def root(self) -> JsonNode:
        """Node of the document."""
        return self.node(self._schema.document)

    def node(self, value: Any) -> JsonNode:
        """Return the node of a schema within the document."""
        if isinstance(value, JsonNode):
            return value
        if not isinstance(value, dict):
            return self._false if value is False else self._empty
        found = self._nodes.get(id(value))
        if found is None:
            found = self._nodes[id(value)] = self._made(value)
        return found

    def _made(self, value: Mapping[str, Any]) -> JsonNode:
        target = self._schema.target(value)
        if target is not NO_TARGET and not self.draft.is_modern:
            return self.node(target)
        kinds = list(self._kinds(value))
        if target is not NO_TARGET:
            if not kinds:
                return self.node(target)
            return JsonNode(kind="combined", document=self, value=value, criterion="allOf", parts=(target, *kinds))
        if not kinds:
            return JsonNode(kind="empty", document=self, value=value)
        return (
            kinds[0]
            if len(kinds) == 1
            else JsonNode(kind="combined", document=self, value=value, criterion="allOf", parts=tuple(kinds))
        )

    def _kinds(self, value: Mapping[str, Any]) -> Iterator[JsonNode]:
        for keyword in ("enum", "const", "not"):
            if keyword in value:
                yield JsonNode(kind=keyword, document=self, value=value)
        for criterion in CRITERIA:
            if isinstance(parts := value.get(criterion), list):
                yield JsonNode(kind="combined", document=self, value=value, criterion=criterion, parts=tuple(parts))
        named = value.get("type")
        if isinstance(named, list) and len(named) > 1:
            yield JsonNode(
                kind="combined",
                document=self,
                value=value,
                criterion="anyOf",
                parts=tuple(self._typed(value, each) for each in named),
            )
        elif named:
            yield self._typed(value, named[0] if isinstance(named, list) else named)
        else:
            yield from (
                JsonNode(kind=kind, document=self, value=value)
                for kind, words in _BY_KEYWORDS.items()
                if words & value.keys()
            )

    def _typed(self, value: Mapping[str, Any], named: Any) -> JsonNode:
        is_integer = named == "integer"
        return JsonNode(kind="number" if is_integer else str(named), document=self, value=value, is_integer=is_integer)

    def fingerprint(self, part: Any) -> bytes:
        """Return what is the same for values, or parts of a combination, that are the same."""
        if isinstance(part, JsonNode):
            return f"{part.kind} {part.is_integer} ".encode() + self.fingerprint(part.value)
        found = self._fingerprints.get(id(part))
        if found is None:
            found = self._fingerprints[id(part)] = blake2b(
                encoded(part, sort_keys=True).encode(), digest_size=16
            ).digest()
        return found
