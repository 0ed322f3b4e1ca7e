"""The formats in which clients may ask for a schema's text (``format``). An unknown one is ignored, as in Confluent's registry.

``serialized``: a Protobuf schema as its ``FileDescriptorProto`` in base64. ``resolved``: an Avro schema with the types that it
refers to.
"""

from __future__ import annotations

import base64

from starlette.requests import Request

from gateway.registry.asked import registry_of
from gateway.registry.route import Query
from log_format.schemas.schema import Schema, SchemaType
from log_format.schemas.state import SchemasState
from log_format.schemas.subjects import split


async def text_in_format(request: Request, state: SchemasState, subject: str, schema: Schema) -> str:
    """Return the text of a schema of the subject, or its context, in the format that the request asks for. Raise
    ``RegistryRefused``, ``BackOff``."""
    match Query(request).text("format"), schema.type:
        case "serialized", SchemaType.PROTOBUF:
            parsed = await registry_of(request).parsed(state, schema, split(subject)[0])
            from log_format.schemas.parsing_protobuf import ProtobufSchema  # noqa: PLC0415 - its library is an extra's

            assert isinstance(parsed, ProtobufSchema)
            return base64.b64encode(parsed.file.SerializeToString(deterministic=True)).decode()
        case "resolved", SchemaType.AVRO:
            parsed = await registry_of(request).parsed(state, schema, split(subject)[0])
            from log_format.schemas.avro_text import canonical_text  # noqa: PLC0415 - only what is used is imported
            from log_format.schemas.parsing_avro import AvroSchema  # noqa: PLC0415

            assert isinstance(parsed, AvroSchema)
            return canonical_text(parsed.root, {})
        case _:
            return schema.text
