"""Registration of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from tidelog import limits
from tidelog.calls.schemas import Schemas
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.schemas.json_schema import json_schema
from tidelog.types.schema import RegisteredSchema


def register(
    model: type,
    subject: str,
    *,
    bootstrap_servers: str | Sequence[str] | None = None,
    **connection: Unpack[ConnectionSettings],
) -> RegisteredSchema:
    """Register the JSON Schema of a model as a version of a subject, unless it is one, and return that version.

    ``bootstrap_servers``, ``connection``: as for ``Producer``. Raises ``TypeError`` for a type without JSON Schema,
    ``IncompatibleSchema``, and else as ``Schemas.register``.
    """
    text = json_schema(model)
    transport = Transport(bootstrap_servers, **connection)
    try:
        return Schemas(transport, limits.API_TIMEOUT_MS).register(subject, text, "JSON")
    finally:
        transport.close()
