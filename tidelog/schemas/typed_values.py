"""Values of a topic as models, for consumers."""

from __future__ import annotations

from typing import Any

from tidelog.calls.schemas import Schemas
from tidelog.schemas.framed import HEADER_BYTES, SchemasById, schema_id_of
from tidelog.schemas.models import from_document, from_members, is_model
from tidelog.schemas.protobuf import is_message, message_of


class SchemaNeeded(Exception):
    """The schema of this id must be asked for first, by ``TypedValues.learn``."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema {schema_id} is not known yet")
        self.schema_id = schema_id


class TypedValues:
    """Deserializer that makes models of JSON documents, and of values with Confluent's header.

    Args:
        model: a dataclass, a msgspec Struct, a pydantic model, or a class that Protobuf generated.
        schemas: the registry; it is asked for the schema of each id once.
        asks: whether values may wait for the registry; otherwise they raise ``SchemaNeeded``.

    Raises ``TypeError`` for what is no model.
    """

    def __init__(self, model: type, schemas: Schemas, *, asks: bool = True) -> None:
        self._is_message = is_message(model)
        if not self._is_message and not is_model(model):
            raise TypeError(
                f"value is a dataclass, a msgspec Struct, a pydantic model or a message's class, not {model!r}"
            )
        self._model = model
        self._by_id = SchemasById(schemas)
        self.asks = asks

    def value(self, data: bytes) -> Any:
        """Return a value as a model. Raises ``ValueError`` (its subclasses of pydantic and msgspec, ``Undecodable``)."""
        schema_id = schema_id_of(data)
        if self._is_message:
            return message_of(self._model, data, has_header=schema_id is not None)
        if schema_id is None:
            return from_document(self._model, data)
        if not self.asks and not self._by_id.knows(schema_id):
            raise SchemaNeeded(schema_id)
        if self._by_id.reader(schema_id) is None:
            return from_document(self._model, data[HEADER_BYTES:])
        return from_members(self._model, self._by_id.members(data))

    def learn(self, schema_id: int) -> None:
        """Ask the registry for a schema. Raises ``Undecodable``, ``GatewayError``."""
        self._by_id.reader(schema_id)
