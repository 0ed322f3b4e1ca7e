"""Avro's types, as values that refer to each other. A record may contain itself, so types are compared by identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class NoDefault(Enum):
    """The absence of a default, since ``None`` is one: null."""

    NO_DEFAULT = "no default"


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


@dataclass(eq=False, slots=True, kw_only=True)
class AvroType:
    """One type. Members that its kind does not have are empty; ``parse_avro`` sets those of a named type after its name.

    ``kind`` is the specification's word; an error is a record. ``name`` and ``aliases`` are full names. ``items`` is what arrays
    and maps hold. ``properties`` are all other attributes, such as a logical type's, in their order.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    is_error: bool = False
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    symbol_set: frozenset[str] = frozenset()
    default: str | None = None
    size: int = 0
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """Namespace of a named type; empty: none."""
        return self.name.rpartition(".")[0]

    @property
    def short_name(self) -> str:
        """Name without the namespace."""
        return self.name.rpartition(".")[2]


@dataclass(eq=False, slots=True, kw_only=True)
class AvroField:
    """A field of a record. ``default`` is its JSON value, or ``NO_DEFAULT``."""

    name: str
    type: AvroType
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    order: str = "ascending"
    properties: Mapping[str, Any] = field(default_factory=dict)


PRIMITIVES: Final[Mapping[str, AvroType]] = {
    kind: AvroType(kind=kind) for kind in ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
}
NAMED: Final = frozenset({"record", "enum", "fixed"})
