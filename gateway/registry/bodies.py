"""The bodies of the registry's API: what clients send, and what they get. Unknown members are ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from log_format.schemas.parsed import TEXTS_BYTES_MAX
from log_format.schemas.refusals import RegistryCode, RegistryRefused, invalid_schema
from log_format.schemas.registered import RegisteredVersion, guid
from log_format.schemas.schema import REFERENCES_MAX, SCHEMA_BYTES_MAX, Schema, SchemaReference, SchemaType


class ReferenceBody(msgspec.Struct, frozen=True):
    """A schema that another refers to."""

    name: str
    subject: str
    version: int


class SchemaBody(msgspec.Struct, frozen=True, rename="camel"):
    """A schema to register, look up or compare."""

    schema: str | None = None
    schema_type: str | None = None
    references: list[ReferenceBody] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    id: int | None = None
    version: int | None = None


class ConfigBody(msgspec.Struct, frozen=True, rename="camel"):
    """A configuration to set."""

    compatibility: str | None = None
    compatibility_level: str | None = None
    normalize: bool | None = None
    compatibility_group: str | None = None


class ModeBody(msgspec.Struct, frozen=True):
    """A mode to set."""

    mode: str | None = None


SCHEMA_BODY: Final = msgspec.json.Decoder(SchemaBody)
CONFIG_BODY: Final = msgspec.json.Decoder(ConfigBody)
MODE_BODY: Final = msgspec.json.Decoder(ModeBody)
LATEST_VERSION: Final = -1
"""Version of a reference that stands for the newest at this moment."""
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_ANY: Final = msgspec.json.Decoder()


def schema_of(body: SchemaBody, latest: Callable[[str], int]) -> Schema:
    """Return the schema of a body. ``latest``: the newest version of a subject, for a reference to version -1. Raise
    ``RegistryRefused`` (42201, 42209)."""
    if not body.schema:
        raise invalid_schema("Empty schema")
    try:
        schema_type = SchemaType((body.schema_type or SchemaType.AVRO).upper())
    except ValueError:
        raise invalid_schema(f"Invalid schema type {(body.schema_type or '')[:100]}") from None
    if len(body.schema) > SCHEMA_BYTES_MAX:
        text = f"The schema is larger than {SCHEMA_BYTES_MAX} bytes"
        raise RegistryRefused(RegistryCode.SCHEMA_TOO_LARGE, text)
    references = body.references or []
    if len(references) > REFERENCES_MAX:
        raise invalid_schema(f"A schema refers to at most {REFERENCES_MAX} others directly")
    if any(one.version < 1 and one.version != LATEST_VERSION for one in references):
        raise invalid_schema("The version of a reference is a number from 1, or -1 for the latest")
    return Schema(
        text=body.schema,
        type=schema_type,
        references=tuple(
            SchemaReference(
                name=one.name,
                subject=one.subject,
                version=latest(one.subject) if one.version == LATEST_VERSION else one.version,
            )
            for one in references
        ),
        metadata=_text(body.metadata),
        rule_set=_text(body.rule_set),
    )


def _text(members: dict[str, Any] | None) -> str | None:
    if not members:
        return None
    try:
        text = _SORTED.encode(members).decode()
    except RecursionError:
        raise invalid_schema("Metadata or rules are nested too deeply") from None
    if len(text) > TEXTS_BYTES_MAX:
        raise RegistryRefused(RegistryCode.SCHEMA_TOO_LARGE, "Metadata or rules are too large")
    return text


def properties_of(schema: Schema) -> dict[str, Any]:
    """Return the properties of a schema's metadata."""
    members = {} if schema.metadata is None else _ANY.decode(schema.metadata)
    properties = members.get("properties")
    return properties if isinstance(properties, dict) else {}


def described(schema: Schema, *, text: str | None = None) -> dict[str, Any]:
    """Return the members that describe a schema. ``text``: the text in the format that was asked for."""
    members: dict[str, Any] = {"guid": guid(schema)}
    if schema.type is not SchemaType.AVRO:
        members["schemaType"] = schema.type
    if schema.references:
        members["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    if schema.metadata is not None:
        members["metadata"] = _ANY.decode(schema.metadata)
    if schema.rule_set is not None:
        members["ruleSet"] = _ANY.decode(schema.rule_set)
    members["schema"] = schema.text if text is None else text
    return members


def version_described(subject: str, version: RegisteredVersion, *, text: str | None = None) -> dict[str, Any]:
    """Return a version of a subject as the API shows it."""
    members = {"subject": subject, "version": version.version, "id": version.schema_id}
    if version.deleted:
        members["deleted"] = True
    return members | described(version.schema, text=text)
