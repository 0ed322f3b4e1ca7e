"""The formats in which clients may ask for a schema's text (``format``). An unknown format is ignored."""

from __future__ import annotations

from starlette.requests import Request

from gateway.registry.route import Query
from log_format.schemas.schema import Schema
from log_format.schemas.state import SchemasState


def text_in_format(request: Request, state: SchemasState, subject: str, schema: Schema) -> str:
    """Return the schema's text in the format that the request asks for."""
    del state, subject
    _ = Query(request).text("format")
    return schema.text
