"""Registration of models, and of Arrow schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Unpack

from tidelog import limits
from tidelog.calls.schemas import Schemas
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.schemas.arrow_schema import avro_schema
from tidelog.schemas.json_schema import json_schema
from tidelog.schemas.protobuf import is_message, message_schema
from tidelog.types.schema import RegisteredSchema


class ArrowSchema(Protocol):
    """Object with Arrow's interface for schemas, such as ``pyarrow.Schema``."""

    def __arrow_c_schema__(self) -> object:
        """Return a capsule of an ``ArrowSchema``."""


def register(
    model: type | ArrowSchema,
    subject: str,
    *,
    bootstrap_servers: str | Sequence[str] | None = None,
    **connection: Unpack[ConnectionSettings],
) -> RegisteredSchema:
    """Register the JSON Schema of a model as a version of a subject, unless it is one, and return that version.

    ``model``: or an Arrow schema, whose Avro schema is registered, for values that are sent as columns; or a class that Protobuf
    generated, whose file is registered, and each file that it imports as a subject of its name.
    ``bootstrap_servers``, ``connection``: as for ``Producer``. Raises ``TypeError`` for a type without JSON Schema,
    ``IncompatibleSchema``, and else as ``Schemas.register``.
    """
    text = "" if is_message(model) else json_schema(model) if isinstance(model, type) else _of_arrow(model)
    transport = Transport(bootstrap_servers, **connection)
    schemas = Schemas(transport, limits.API_TIMEOUT_MS)
    try:
        if is_message(model):
            return message_schema(schemas, model, subject, registers=True)
        return schemas.register(subject, text, "JSON" if isinstance(model, type) else "AVRO")
    finally:
        transport.close()


def _of_arrow(schema: ArrowSchema) -> str:
    if not hasattr(schema, "__arrow_c_schema__"):
        raise TypeError(f"{type(schema).__name__} is neither a model nor an Arrow schema")
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    return avro_schema(pa.schema(schema))
