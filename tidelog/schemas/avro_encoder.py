"""Values of Avro as Confluent's serializers write them: a zero byte, the schema's id, and the value. Needs fastavro.

Source: Confluent, "Wire format".
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec

from tidelog.types.schema import RegisteredSchema


def avro_encoder(schema: RegisteredSchema) -> Callable[[Any], bytes]:
    """Return a function from what a value means (dicts, lists and scalars, as of fastavro) to its bytes.

    Args:
        schema: a version of a subject, as ``Schemas.register`` and ``latest`` return it; it refers to no other schema.

    The function raises ``TypeError`` and ``ValueError`` for a value that is not of the schema. Raises ``TypeError`` for a schema
    of another type or with references, ``ModuleNotFoundError`` without fastavro.
    """
    import fastavro  # noqa: PLC0415 - the SDK works without it

    if schema.schema_type != "AVRO" or schema.references:
        raise TypeError(f"schema {schema.id} is {schema.schema_type}, or refers to others: it must be one Avro schema")
    parsed = fastavro.parse_schema(msgspec.json.decode(schema.schema))
    header = b"\0" + schema.id.to_bytes(4, "big")

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        out.write(header)
        fastavro.schemaless_writer(out, parsed, value, strict=True)
        return out.getvalue()

    return encode
