"""JSON Schema's documents with absolute references, and the one schema that stands for the parts of an ``allOf``.

A ``$ref`` means the document that it is in. Parts of several documents are put together here, so each reference is written out
first: the address of a document, and the pointer within it.

Source: JSON Schema 2020-12 Core, sections 8.2 and 10.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_format.schemas.columns.shape import Untypable
from log_format.schemas.json_subschemas import LISTS, MAPS, ONE

__all__ = ["ROOT", "SchemaDocuments", "kinds", "together"]

ROOT: Final = "urn:tidelog:schema:0"
"""Address of the schema itself; those that it refers to are numbered on."""
_SAID_ONCE: Final = frozenset({"oneOf", "anyOf", "format", "precision", "scale", "$ref"})
"""Keywords that decide a column, so that two parts can't have different ones."""


class SchemaDocuments:
    """A schema and those that it refers to, by address.

    Args:
        schema: the schema.
        others: the other schemas by the name that a ``$ref`` gives them.

    Attributes:
        by_address: the documents, without names of their own and ``$schema``, their references written out.
        drafts: the ``$schema`` of each; None: it names none.
    """

    def __init__(self, schema: Any, others: Mapping[str, Any]) -> None:
        documents = {"": schema, **others}
        addresses = {name: f"{ROOT[:-1]}{number}" for number, name in enumerate(documents)}
        self.by_address = {
            addresses[name]: _absolute(_nameless(document), addresses[name], addresses)
            for name, document in documents.items()
        }
        self.drafts = {
            addresses[name]: document.get("$schema") if isinstance(document, dict) else None
            for name, document in documents.items()
        }

    @property
    def root(self) -> Any:
        """The schema, its references written out."""
        return self.by_address[ROOT]

    def target(self, reference: str, path: str) -> Any:
        """Return the schema that a ``$ref`` names. Raises ``Untypable``."""
        address, _, pointer = reference.partition("#")
        if pointer and not pointer.startswith("/"):
            raise Untypable(path, f"refers to {pointer!r} by an anchor, which a typed topic's schema can't")
        found = self.by_address.get(address)
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            found = _member(found, key)
        if found is None:
            raise Untypable(path, f"refers to {shown(reference)!r}, which is not there")
        return found


def _member(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return value[int(key)] if key.isascii() and key.isdigit() and int(key) < len(value) else None
    return value.get(key) if isinstance(value, dict) else None


def shown(reference: str) -> str:
    """Return a reference as its schema has it, if it leads into the same document."""
    return reference.removeprefix(ROOT)


def _nameless(document: Any) -> Any:
    """Return the document without its own name, which references within it would be relative to."""
    if not isinstance(document, dict):
        return document
    return {keyword: value for keyword, value in document.items() if keyword not in ("$id", "id", "$schema")}


def _absolute(schema: Any, own: str, addresses: Mapping[str, str]) -> Any:
    """Return the schema with each reference as address and pointer; one to an unknown document as it is."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "$ref" and isinstance(value, str):
            name, _, pointer = value.partition("#")
            address = addresses.get(name) if name else own
            found[keyword] = value if address is None else f"{address}#{pointer}"
        elif keyword in MAPS and isinstance(value, dict):
            found[keyword] = {name: _absolute(part, own, addresses) for name, part in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            found[keyword] = [_absolute(part, own, addresses) for part in value]
        else:
            found[keyword] = _absolute(value, own, addresses) if keyword in ONE else value
    return found


def kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a schema names."""
    kind = schema["type"]
    return [one for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)]


def together(parts: Sequence[Mapping[str, Any]], path: str) -> dict[str, Any]:
    """Return a schema with the columns of all parts, whose values are of each of them.

    Its bounds are those of one of the parts: they are checked by the whole schema. Raises ``Untypable`` for parts that contradict
    each other, or that both decide the column.
    """
    found: dict[str, Any] = {}
    for part in parts:
        for keyword, value in part.items():
            known = found.setdefault(keyword, value)
            if known is value or known == value:
                continue
            if keyword in _SAID_ONCE:
                raise Untypable(
                    path, f"has two parts (allOf) with the keyword {keyword!r}, of which a column can have one"
                )
            found[keyword] = _both(keyword, known, value, path)
    return found


def _both(keyword: str, one: Any, other: Any, path: str) -> Any:
    """Return a keyword's value that says what both values say."""
    match keyword:
        case "type":
            return _types({"type": one}, {"type": other}, path)
        case "properties" if isinstance(one, dict) and isinstance(other, dict):
            shared = {name: {"allOf": [one[name], other[name]]} for name in one if name in other}
            return {**one, **other, **shared}
        case "required" | "enum" if isinstance(one, list) and isinstance(other, list):
            return [*one, *other] if keyword == "required" else [value for value in one if value in other]
        case "additionalProperties" | "items":
            return False if False in (one, other) else {"allOf": [one, other]}
        case "not":
            return {"anyOf": [one, other]}
    return one


def _types(one: Mapping[str, Any], other: Mapping[str, Any], path: str) -> list[str]:
    left, right = set(kinds(one)), set(kinds(other))
    found = left & right
    if "number" in left | right and "integer" in left | right:
        found.add("integer")
    if not found:
        raise Untypable(path, "allows no value: the types of its parts (allOf) exclude each other")
    return sorted(found - {"integer"} if {"integer", "number"} <= found else found)
