"""Avro: from JSON text to types.

The specification's rules for names, symbols, unions and defaults are checked as Java's parser checks them, since programs read
these schemas with Java. References are schemas whose named types are known before the text is read; canonical texts name them
and do not repeat them, ``inlined`` has them where they are used first.

Apache's ``avro`` and ``fastavro`` parse as well, and are what tests compare with. Neither says where a text is wrong, and both
take recursion and defaults as they come.

Source: Apache Avro 1.12, "Specification".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from log_format.schemas.avro_text import canonical_text, normalized_text
from log_format.schemas.avro_types import NAMED, NO_DEFAULT, PRIMITIVES, AvroField, AvroType
from log_format.schemas.json_text import decoded
from log_format.schemas.parsed import InvalidSchema, ParsedSchema, Steps
from log_format.schemas.schema import SchemaType

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset(
    {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "items", "values", "size"}
)
_RESERVED_OF_FIELDS: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})
_INT_MAX: Final = 2**31 - 1


class AvroSchema(ParsedSchema):
    """A parsed Avro schema. ``root`` is its type; ``inlined`` is its canonical text with the types of its references in it."""

    __slots__ = ("inlined", "root")

    def __init__(self, root: AvroType, referenced: Sequence[AvroType]) -> None:
        known = {named.name: named for named in referenced}
        canonical = canonical_text(root, known)
        self.root: Final = root
        self.inlined: Final = canonical_text(root, {}) if known else canonical
        super().__init__(SchemaType.AVRO, canonical, normalized_text(root, known), self.inlined)


def parse_avro(text: str, references: Sequence[tuple[str, str]], *, is_new: bool = True) -> AvroSchema:
    """Parse an Avro schema. ``is_new``: its defaults are checked; its references are stored already. Raises ``InvalidSchema``."""
    parser = _Parser(Steps())
    for name, reference in references:
        try:
            parser.parse(decoded(reference), "", "")
        except InvalidSchema as error:
            raise InvalidSchema(error.detail, place=f"reference {name!r}") from error
    referenced = list(parser.names.values())
    parser.defaults.clear()
    root = parser.parse(decoded(text), "", "")
    if is_new:
        parser.check_defaults()
    return AvroSchema(root, referenced)


@dataclass(slots=True)
class _Parser:
    """The state of one parse: the named types that were defined so far, and the defaults that are to be checked."""

    steps: Steps
    names: dict[str, AvroType] = field(default_factory=dict)
    defaults: list[tuple[AvroField, str]] = field(default_factory=list)

    def parse(self, value: Any, namespace: str, place: str) -> AvroType:
        self.steps.spend()
        if isinstance(value, str):
            return self._named(value, namespace, place)
        if isinstance(value, list):
            return self._union(value, namespace, place)
        if not isinstance(value, dict):
            raise _invalid("A schema is a name, an object or an array of schemas.", place)
        kind = value.get("type")
        if not isinstance(kind, str):
            raise _invalid(
                '"type" is missing, or is no text: of a schema that is an object, it is the name of a type.', place
            )
        if kind in PRIMITIVES:
            return AvroType(kind=kind, properties=_properties(value, _RESERVED))
        match kind:
            case "record" | "error":
                return self._record(value, namespace, place)
            case "enum":
                return self._enum(value, namespace, place)
            case "fixed":
                return self._fixed(value, namespace, place)
            case "array" | "map":
                member = "items" if kind == "array" else "values"
                if member not in value:
                    raise _invalid(
                        f'An {kind} needs "{member}".' if kind == "array" else f'A {kind} needs "{member}".', place
                    )
                items = self.parse(value[member], namespace, _at(place, member))
                return AvroType(kind=kind, items=items, properties=_properties(value, _RESERVED))
        return self._named(kind, namespace, _at(place, "type"))

    def _named(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        self.steps.spend_name(len(namespace))
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            raise _invalid(f"There is no type {full!r}: it is neither defined before, nor a reference.", place)
        return found

    def _union(self, value: list[Any], namespace: str, place: str) -> AvroType:
        branches = []
        taken = set()
        for index, each in enumerate(value):
            where = _at(place, str(index))
            branch = self.parse(each, namespace, where)
            if branch.kind == "union":
                raise _invalid("A union can't be directly in a union.", where)
            name = branch.name or branch.kind
            if name in taken:
                raise _invalid(f"The union has {name!r} twice.", where)
            taken.add(name)
            branches.append(branch)
        return AvroType(kind="union", branches=tuple(branches))

    def _define(
        self, kind: str, value: Mapping[str, Any], namespace: str, place: str, reserved: frozenset[str]
    ) -> AvroType:
        name = value.get("name")
        if not isinstance(name, str):
            raise _invalid(f'"name" is missing, or is no text: {kind} has one.', place)
        space = value.get("namespace", namespace)
        if not isinstance(space, str):
            raise _invalid('"namespace" is no text.', _at(place, "namespace"))
        if "." in name:
            space, _, name = name.rpartition(".")
        for part in (*(space.split(".") if space else ()), name):
            _check_name(part, place)
        self.steps.spend_name(len(space))
        full = f"{space}.{name}" if space else name
        if full in PRIMITIVES or full in self.names:
            raise _invalid(f"The type {full!r} is defined already.", place)
        short = _texts(value, "aliases", place)
        self.steps.spend_name(len(short) * len(space))
        aliases = tuple(alias if "." in alias or not space else f"{space}.{alias}" for alias in short)
        defined = AvroType(
            kind=kind, name=full, aliases=aliases, doc=_doc(value), properties=_properties(value, reserved)
        )
        self.names[full] = defined
        return defined

    def _record(self, value: Mapping[str, Any], namespace: str, place: str) -> AvroType:
        record = self._define("record", value, namespace, place, _RESERVED)
        record.is_error = value["type"] == "error"
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise _invalid(f'"fields" of {record.name!r} is missing, or is no array.', place)
        parsed = []
        taken = set()
        for index, each in enumerate(fields):
            where = _at(place, f"fields/{index}")
            member = self._field(each, record.namespace, where)
            if member.name in taken:
                raise _invalid(f"{record.name!r} has a field {member.name!r} twice.", where)
            taken.add(member.name)
            parsed.append(member)
        record.fields = tuple(parsed)
        return record

    def _field(self, value: Any, namespace: str, place: str) -> AvroField:
        if not isinstance(value, dict) or not isinstance(name := value.get("name"), str):
            raise _invalid('A field is an object with a "name".', place)
        _check_name(name, place)
        if "type" not in value:
            raise _invalid(f'The field {name!r} has no "type".', place)
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in {"ascending", "descending", "ignore"}:
            raise _invalid('"order" is ascending, descending or ignore.', _at(place, "order"))
        member = AvroField(
            name=name,
            type=self.parse(value["type"], namespace, _at(place, "type")),
            default=value.get("default", NO_DEFAULT),
            aliases=_texts(value, "aliases", place),
            doc=_doc(value),
            order=order.lower(),
            properties=_properties(value, _RESERVED_OF_FIELDS),
        )
        if member.default is not NO_DEFAULT:
            self.defaults.append((member, _at(place, "default")))
        return member

    def _enum(self, value: Mapping[str, Any], namespace: str, place: str) -> AvroType:
        enum = self._define("enum", value, namespace, place, _RESERVED | {"default"})
        symbols = value.get("symbols")
        if not isinstance(symbols, list):
            raise _invalid(f'"symbols" of {enum.name!r} is missing, or is no array.', place)
        for index, symbol in enumerate(symbols):
            self.steps.spend()
            if not isinstance(symbol, str):
                raise _invalid("A symbol is a text.", _at(place, f"symbols/{index}"))
            _check_name(symbol, _at(place, f"symbols/{index}"))
        enum.symbols = tuple(symbols)
        enum.symbol_set = frozenset(symbols)
        if len(enum.symbol_set) != len(symbols):
            raise _invalid(f"A symbol of {enum.name!r} is there twice.", _at(place, "symbols"))
        default = value.get("default")
        if default is not None and (not isinstance(default, str) or default not in enum.symbol_set):
            raise _invalid(f"The default of {enum.name!r} is none of its symbols.", _at(place, "default"))
        enum.default = default
        return enum

    def _fixed(self, value: Mapping[str, Any], namespace: str, place: str) -> AvroType:
        fixed = self._define("fixed", value, namespace, place, _RESERVED)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _INT_MAX:
            raise _invalid(f'"size" of {fixed.name!r} is missing, or is no number from 0 to {_INT_MAX}.', place)
        fixed.size = size
        return fixed

    def check_defaults(self) -> None:
        """Check each field's default, when the types are known in whole."""
        for member, place in self.defaults:
            if not self._fits(member.type, member.default):
                raise _invalid(f"The default of the field {member.name!r} is no value of its type.", place)

    def _fits(self, kind: AvroType, value: Any) -> bool:
        self.steps.spend()
        if (fits := _FITS.get(kind.kind)) is not None:
            return fits(kind, value)
        match kind.kind:
            case "array":
                return isinstance(value, list) and all(self._fits(_items(kind), item) for item in value)
            case "map":
                return isinstance(value, dict) and all(self._fits(_items(kind), item) for item in value.values())
            case "union":
                return any(self._fits(branch, value) for branch in kind.branches)
        self.steps.spend(len(kind.fields))
        return isinstance(value, dict) and all(
            self._fits(member.type, value[member.name]) if member.name in value else member.default is not NO_DEFAULT
            for member in kind.fields
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any, bits: int) -> bool:
    return _is_number(value) and isinstance(value, int) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, str) and all(ord(character) < 256 for character in value)


_FITS: Final[Mapping[str, Callable[[AvroType, Any], bool]]] = {
    "null": lambda _, value: value is None,
    "boolean": lambda _, value: isinstance(value, bool),
    "int": lambda _, value: _is_integer(value, 32),
    "long": lambda _, value: _is_integer(value, 64),
    "float": lambda _, value: _is_number(value),
    "double": lambda _, value: _is_number(value),
    "string": lambda _, value: isinstance(value, str),
    "bytes": lambda _, value: _is_bytes(value),
    "fixed": lambda kind, value: _is_bytes(value) and len(value) == kind.size,
    "enum": lambda kind, value: isinstance(value, str) and value in kind.symbol_set,
}


def _items(kind: AvroType) -> AvroType:
    assert kind.items is not None, "arrays and maps are made with items"
    return kind.items


def _invalid(detail: str, place: str) -> InvalidSchema:
    return InvalidSchema(detail, place=place or "/")


def _at(place: str, member: str) -> str:
    return f"{place}/{member}"


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise _invalid(f"{name!r} is no name: letters, digits and _, and no digit first.", place)


def _texts(value: Mapping[str, Any], member: str, place: str) -> tuple[str, ...]:
    texts = value.get(member, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _invalid(f'"{member}" is no array of texts.', _at(place, member))
    return tuple(texts)


def _doc(value: Mapping[str, Any]) -> str | None:
    doc = value.get("doc")
    return doc if isinstance(doc, str) else None


def _properties(value: Mapping[str, Any], reserved: frozenset[str]) -> Mapping[str, Any]:
    return {name: each for name, each in value.items() if name not in reserved}


assert not NAMED & PRIMITIVES.keys(), "a type is named or primitive"
