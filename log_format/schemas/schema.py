"""What a schema is: its type, its text, the schemas that it refers to, and what Confluent's registry keeps beside the text.

A schema is a value: two with the same members are the same schema, and have the same id in a context of the registry.
The text is as it was registered. ``metadata`` and ``rule_set`` are kept and returned, never
evaluated: JSON objects as text with sorted members and without white space, so that equal ones are equal as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SCHEMA_BYTES_MAX: Final = 1024 * 1024
"""Largest text of a schema, in UTF-8; Kafka's default limit of a record, so Confluent's registry takes no larger one."""

REFERENCES_MAX: Final = 1_000
"""Most references of one schema."""


class SchemaType(StrEnum):
    """The language of a schema's text."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReference:
    """A schema that another one refers to.

    ``name`` is what the other's text calls it: an Avro type, a JSON Schema's ``$ref``, a Protobuf import. ``subject`` and
    ``version`` say where it is registered.
    """

    name: str
    subject: str
    version: int

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError(f"a reference has version {self.version}, and versions begin with 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """One schema. ``metadata`` and ``rule_set`` are JSON objects as text; None: it has none."""

    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None
