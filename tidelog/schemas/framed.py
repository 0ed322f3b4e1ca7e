"""Values of Confluent's serializers: a zero byte, the id of the schema (4 bytes, big-endian), and the value as its schema's type
encodes it.

Ids never change their meaning, so what was learnt of an id is kept (``IDS_MAX``, the oldest go first). Avro needs fastavro,
Protobuf needs protobuf.

Source: Confluent, "Wire format".
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from log_format.schemas.parsed import InvalidSchema
from tidelog.calls.schemas import Schemas
from tidelog.schemas.protobuf import members_reader
from tidelog.types.schema import SchemaById, SchemaReference

HEADER_BYTES: Final = 5
IDS_MAX: Final = 1_000
REFERENCES_MAX: Final = 1_000
"""Schemas that one schema may refer to, directly or not."""

MembersReader = Callable[[bytes], Any]
"""Function from a value without header to what it means, in dicts, lists and scalars."""


class Undecodable(ValueError):
    """A value that can't be decoded, and why."""


def schema_id_of(value: bytes) -> int | None:
    """Return the id of the schema that a value names; None for a value without Confluent's header."""
    if len(value) < HEADER_BYTES or value[0] != 0:
        return None
    return int.from_bytes(value[1:HEADER_BYTES], "big")


class SchemasById:
    """Readers of values by the id of their schema. Thread-safe."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._lock = threading.Lock()
        self._known: dict[int, MembersReader | Undecodable | None] = {}

    def knows(self, schema_id: int) -> bool:
        """Return whether ``reader`` answers without asking the registry."""
        return schema_id in self._known

    def reader(self, schema_id: int) -> MembersReader | None:
        """Return the reader of values of Avro or Protobuf; None if values of this schema are JSON documents.

        Raises ``Undecodable`` for a schema of another type, or when a package is missing; ``GatewayError``.
        """
        with self._lock:
            if schema_id not in self._known:
                found = self._asked(schema_id)
                while len(self._known) >= IDS_MAX:
                    del self._known[next(iter(self._known))]
                self._known[schema_id] = found
            known = self._known[schema_id]
        if isinstance(known, Undecodable):
            raise Undecodable(*known.args)
        return known

    def _asked(self, schema_id: int) -> MembersReader | Undecodable | None:
        schema = self._schemas.by_id(schema_id)
        if schema.schema_type == "JSON":
            return None
        if schema.schema_type == "PROTOBUF":
            return self._of_protobuf(schema_id, schema)
        try:
            import fastavro  # noqa: PLC0415 - only values of Avro need it
        except ModuleNotFoundError:
            return Undecodable("values of Avro need fastavro: pip install fastavro")
        named: dict[str, Any] = {}
        try:
            for _, text in self._texts(schema.references, set()):
                fastavro.parse_schema(msgspec.json.decode(text), named_schemas=named)
            parsed = fastavro.parse_schema(msgspec.json.decode(schema.schema), named_schemas=named)
        except (ValueError, KeyError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            return Undecodable(f"schema {schema_id} can't be used: {error}")

        def read(body: bytes) -> Any:
            return fastavro.schemaless_reader(io.BytesIO(body), parsed, None)

        return read

    def _of_protobuf(self, schema_id: int, schema: SchemaById) -> MembersReader | Undecodable:
        try:
            return members_reader(schema.schema, self._texts(schema.references, set()))
        except ModuleNotFoundError:
            return Undecodable("values of Protobuf need protobuf: pip install protobuf")
        except InvalidSchema as error:
            return Undecodable(f"schema {schema_id} can't be used: {error.detail}")

    def _texts(self, references: Iterable[SchemaReference], seen: set[tuple[str, int]]) -> list[tuple[str, str]]:
        """Return names and texts of schemas that are referred to, each after those that it needs itself."""
        texts: list[tuple[str, str]] = []
        for each in references:
            place = (each.subject, each.version)
            if place in seen or len(seen) >= REFERENCES_MAX:
                continue
            seen.add(place)
            found = self._schemas.version(each.subject, each.version, deleted=True)
            texts += [*self._texts(found.references, seen), (each.name, found.schema)]
        return texts

    def members(self, value: bytes) -> Any:
        """Return a value with Confluent's header as dicts, lists and scalars. Raises ``Undecodable``, ``GatewayError``."""
        schema_id = schema_id_of(value)
        assert schema_id is not None
        reader = self.reader(schema_id)
        body = value[HEADER_BYTES:]
        try:
            return msgspec.json.decode(body) if reader is None else reader(body)
        except Exception as error:  # the libraries raise whatever their code meets in damaged bytes
            raise Undecodable(f"the value is not of its schema {schema_id}: {error!r}") from error
