"""Schemas, subjects and their settings, as the schema registry has them."""

from __future__ import annotations

from typing import Literal

import msgspec

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]
CompatibilityLevel = Literal[
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
]


class SchemaReference(msgspec.Struct, frozen=True):
    """A version of a subject to which a schema refers by ``name``."""

    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of a subject, with its schema's text and the ``id`` by which values name the schema."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] = ()
    deleted: bool = False
    """Whether the version is deleted, so that it is in no list; its id still works."""


class SchemaById(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schema without its subject."""

    schema: str
    schema_type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] = ()


class SchemaCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a comparison: whether the schema is compatible, and the reasons why not."""

    is_compatible: bool
    messages: tuple[str, ...] = ()
