"""What the registry knows of a schema: its id, where it is registered, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

from log_format.schemas.schema import Schema
from log_format.schemas.subjects import in_context

SCHEMA_BYTES: Final = 640
"""Bytes of a schema in both indexes, without its text: measured on CPython 3.11, rounded up."""
PLACE_BYTES: Final = 240
"""Bytes of a version in its subject and in its schema."""
SUBJECT_BYTES: Final = 320
REFERENCE_BYTES: Final = 640
CONFIG_BYTES: Final = 480
CONTEXT_BYTES: Final = 8_192


class Version(NamedTuple):
    """A version of a subject, and the id of its schema."""

    version: int
    id: int
    is_deleted: bool


class Place(NamedTuple):
    """A version of a subject, as a schema knows where it is."""

    subject: str
    version: int


class Id(NamedTuple):
    """A schema's id in a context."""

    context: str
    id: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema and its id, and the versions of subjects that have it, in the order of their registration."""

    id: int
    schema: Schema
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredVersion:
    """A version of a subject with its schema. ``deleted``: it is deleted, but not permanently."""

    version: int
    schema_id: int
    schema: Schema
    deleted: bool


def digest(schema: Schema) -> bytes:
    """Return what is the same for equal schemas only: 16 bytes, which are also the schema's guid."""
    found = blake2b(digest_size=16)
    references = (part for one in schema.references for part in (one.name, one.subject, str(one.version)))
    for part in (schema.type, schema.text, schema.metadata, schema.rule_set, *references):
        data = b"" if part is None else part.encode("utf-8", "surrogatepass")
        found.update(b"%d %d:" % (part is not None, len(data)))
        found.update(data)
    return found.digest()


def guid(schema: Schema) -> str:
    """Return the name of a schema that is the same in all contexts and stores."""
    return str(UUID(bytes=digest(schema)))


def schema_bytes(schema: Schema) -> int:
    """Return the bytes of memory that a schema takes."""
    texts = (schema.text, schema.metadata or "", schema.rule_set or "")
    size = SCHEMA_BYTES + sum(len(text) * (1 if text.isascii() else 4) for text in texts)
    return size + sum(REFERENCE_BYTES + 4 * (len(one.name) + len(one.subject)) for one in schema.references)


def referred(schema: Schema, context: str) -> Iterator[Place]:
    """Yield each version that the schema refers to, once."""
    yield from dict.fromkeys(Place(in_context(one.subject, context), one.version) for one in schema.references)
