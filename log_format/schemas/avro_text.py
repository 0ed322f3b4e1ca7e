"""Avro: from types to text, canonical as Java writes it, or normalized as Confluent's registry does.

The canonical text has names without the namespace that surrounds them, and attributes in the order in which Java writes them.
The normalized one has full names, sorted aliases and properties, and each attribute once, whether it is the default or not.
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
    """Return the text with full names and sorted attributes. ``known`` types are named only."""
    return encoded(_Normalized(set(known)).value(root))


class _Canonical:
    def __init__(self, written: set[str]) -> None:
        self.written = written

    def value(self, kind: AvroType, namespace: str) -> Any:
        if kind.kind == "union":
            return [self.value(branch, namespace) for branch in kind.branches]
        if kind.items is not None:
            member = "items" if kind.kind == "array" else "values"
            return {"type": kind.kind, member: self.value(kind.items, namespace), **kind.properties}
        if not kind.name:
            return {"type": kind.kind, **kind.properties} if kind.properties else kind.kind
        if kind.name in self.written:
            hidden = kind.namespace != namespace or kind.short_name in PRIMITIVES
            return kind.name if hidden else kind.short_name
        self.written.add(kind.name)
        text: dict[str, Any] = {"type": "error" if kind.is_error else kind.kind, "name": kind.short_name}
        if kind.namespace != namespace:
            text["namespace"] = kind.namespace
        if kind.doc is not None:
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
        text.update(kind.properties)
        if kind.aliases:
            text["aliases"] = [_from(alias, kind.namespace) for alias in _once(kind.aliases)]
        return text

    def _field(self, member: AvroField, namespace: str) -> dict[str, Any]:
        text: dict[str, Any] = {"name": member.name, "type": self.value(member.type, namespace)}
        if member.doc is not None:
            text["doc"] = member.doc
        if member.default is not NO_DEFAULT:
            text["default"] = member.default
        if member.order != "ascending":
            text["order"] = member.order
        if member.aliases:
            text["aliases"] = list(_once(member.aliases))
        return {**text, **member.properties}


class _Normalized:
    def __init__(self, written: set[str]) -> None:
        self.written = written

    def value(self, kind: AvroType) -> Any:
        if kind.kind == "union":
            return [self.value(branch) for branch in kind.branches]
        if kind.items is not None:
            member = "items" if kind.kind == "array" else "values"
            return {"type": kind.kind, member: self.value(kind.items), **_sorted(kind.properties)}
        if not kind.name:
            return {"type": kind.kind, **_sorted(kind.properties)} if kind.properties else kind.kind
        if kind.name in self.written:
            return kind.name
        self.written.add(kind.name)
        text: dict[str, Any] = {"name": kind.name, "type": "error" if kind.is_error else kind.kind}
        match kind.kind:
            case "record":
                text["fields"] = [self._field(member) for member in kind.fields]
            case "enum":
                text["symbols"] = kind.symbols
            case _:
                text["size"] = kind.size
        if kind.doc:
            text["doc"] = kind.doc
        if kind.aliases:
            text["aliases"] = sorted(set(kind.aliases))
        if kind.default is not None:
            text["default"] = kind.default
        return {**text, **_sorted(kind.properties)}

    def _field(self, member: AvroField) -> dict[str, Any]:
        text: dict[str, Any] = {"name": member.name, "type": self.value(member.type), "order": member.order}
        if member.doc is not None:
            text["doc"] = member.doc
        if member.aliases:
            text["aliases"] = sorted(set(member.aliases))
        if member.default is not NO_DEFAULT:
            text["default"] = _sorted(member.default)
        return {**text, **_sorted(member.properties)}


def _sorted(value: Any) -> Any:
    """Return a JSON value with the members of each object in the order of their names."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _from(name: str, namespace: str) -> str:
    space, _, short = name.rpartition(".")
    return short if space == namespace else name


def _once(names: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(names)
