"""Avro: from types to text, canonical as Java writes it, or normalized as Confluent's registry does.

The canonical text has names without the namespace that surrounds them, and attributes in the order in which Java writes them.
The normalized one is the canonical text of the schema with sorted aliases and properties, and without an empty documentation of
a type: so a schema that has neither to sort has the same text and id with and without ``normalize``.

Source: ``AvroSchema.normalize`` and ``canonicalString`` of Confluent's registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from log_format.schemas.avro_types import NO_DEFAULT, PRIMITIVES, AvroField, AvroType
from log_format.schemas.json_text import encoded


def canonical_text(root: AvroType, known: Mapping[str, AvroType]) -> str:
    """Return the text with the attributes that Java writes. ``known`` types are named, as are those that were written before."""
    return encoded(_Canonical(set(known)).value(root, ""))


def normalized_text(root: AvroType, known: Mapping[str, AvroType]) -> str:
    """Return the canonical text with sorted aliases and properties. ``known`` types are named only."""
    return encoded(_Canonical(set(known), is_normal=True).value(root, ""))


class _Canonical:
    def __init__(self, written: set[str], *, is_normal: bool = False) -> None:
        self.written = written
        self._is_normal = is_normal

    def value(self, kind: AvroType, namespace: str) -> Any:
        if kind.kind == "union":
            return [self.value(branch, namespace) for branch in kind.branches]
        if kind.items is not None:
            member = "items" if kind.kind == "array" else "values"
            return {"type": kind.kind, member: self.value(kind.items, namespace), **self._ordered(kind.properties)}
        if not kind.name:
            return {"type": kind.kind, **self._ordered(kind.properties)} if kind.properties else kind.kind
        if kind.name in self.written:
            hidden = kind.namespace != namespace or kind.short_name in PRIMITIVES
            return kind.name if hidden else kind.short_name
        self.written.add(kind.name)
        text: dict[str, Any] = {"type": "error" if kind.is_error else kind.kind, "name": kind.short_name}
        if kind.namespace != namespace:
            text["namespace"] = kind.namespace
        if kind.doc or (kind.doc is not None and not self._is_normal):
            text["doc"] = kind.doc
        match kind.kind:
            case "record":
                text["fields"] = [self._field(member, kind.namespace) for member in kind.fields]
            case "enum":
                text["symbols"] = kind.symbols
                if kind.default is not None:
                    text["default"] = kind.default
            case _:
                text["size"] = kind.size
        text.update(self._ordered(kind.properties))
        if kind.aliases:
            text["aliases"] = [_from(alias, kind.namespace) for alias in self._once(kind.aliases)]
        return text

    def _field(self, member: AvroField, namespace: str) -> dict[str, Any]:
        text: dict[str, Any] = {"name": member.name, "type": self.value(member.type, namespace)}
        if member.doc is not None:
            text["doc"] = member.doc
        if member.default is not NO_DEFAULT:
            text["default"] = self._ordered(member.default)
        if member.order != "ascending":
            text["order"] = member.order
        if member.aliases:
            text["aliases"] = list(self._once(member.aliases))
        return {**text, **self._ordered(member.properties)}

    def _once(self, names: Iterable[str]) -> Iterable[str]:
        return sorted(set(names)) if self._is_normal else dict.fromkeys(names)

    def _ordered(self, value: Any) -> Any:
        return _sorted(value) if self._is_normal else value


def _sorted(value: Any) -> Any:
    """Return a JSON value with the members of each object in the order of their names."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _from(name: str, namespace: str) -> str:
    space, _, short = name.rpartition(".")
    return short if space == namespace else name
