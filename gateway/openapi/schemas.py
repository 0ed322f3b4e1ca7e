"""JSON schemas of requests and answers of the calls that parse by hand, as components of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from gateway.http.fields import Count, Offset, Partition, Timestamp, TopicName
from log_format.errors import ErrorCode


def ref(name: str) -> dict[str, str]:
    """A reference to one of ``COMPONENT_SCHEMAS``."""
    return {"$ref": f"#/components/schemas/{name}"}


def described(schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    """The schema with a description."""
    return {**schema, "description": description}


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a type without a name of its own."""
    return TypeAdapter(kind).json_schema()


def object_of(
    properties: Mapping[str, Any], *, required: tuple[str, ...] | None = None, closed: bool = False
) -> dict[str, Any]:
    """An object's schema. ``required``: by default all properties. ``closed``: no other members, as in requests."""
    names = list(properties) if required is None else list(required)
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "required": names}
    if closed:
        schema["additionalProperties"] = False
    return schema


def list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """A list's schema."""
    return {"type": "array", "items": dict(items)}


OFFSET: Final = schema_of(Offset)
COUNT: Final = schema_of(Count)
PARTITION: Final = schema_of(Partition)
TIMESTAMP: Final = described(schema_of(Timestamp), "Milliseconds since the epoch")
TOPIC_NAME: Final = schema_of(TopicName)
_BASE64: Final = {"type": "string", "contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/]*={0,2}$"}
_NULLABLE_TEXT: Final = {"type": ["string", "null"]}

RECORD_EXAMPLE: Final = {
    "partition": 3,
    "offset": 41,
    "timestamp": 1763683200000,
    "key": "user-7",
    "value": '{"amount":3}',
    "headers": [{"key": "trace", "value": "ab"}],
}
NEW_RECORD_EXAMPLE: Final = {"key": "user-7", "value": {"amount": 3}, "headers": {"trace": "ab"}}

_HEADER: Final = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "value": _NULLABLE_TEXT, "value_base64": _BASE64},
    "required": ["key"],
    "additionalProperties": False,
    "oneOf": [{"required": ["value"]}, {"required": ["value_base64"]}],
}

_RECORD: Final = {
    "type": "object",
    "description": "A stored record. Bytes that are not UTF-8 appear under the name with `_base64`, the plain one absent.",
    "properties": {
        "partition": PARTITION,
        "offset": OFFSET,
        "timestamp": TIMESTAMP,
        "key": _NULLABLE_TEXT,
        "key_base64": _BASE64,
        "value": described(_NULLABLE_TEXT, "null is a tombstone"),
        "value_base64": _BASE64,
        "headers": list_of(_HEADER),
    },
    "required": ["partition", "offset", "timestamp", "headers"],
}

_NEW_RECORD: Final = {
    "type": "object",
    "description": "A record to append. Exactly one of `value`, `value_base64`; at most one of `key`, `key_base64`.",
    "properties": {
        "partition": {"anyOf": [PARTITION, {"type": "null"}]},
        "offset": {"description": "Ignored, so that a fetched record can be produced again"},
        "timestamp": {"anyOf": [TIMESTAMP, {"type": "null"}]},
        "key": _NULLABLE_TEXT,
        "key_base64": _BASE64,
        "value": {"description": "A string is its UTF-8 bytes, null a tombstone, anything else its compact JSON"},
        "value_base64": _BASE64,
        "headers": {
            "anyOf": [
                list_of(_HEADER),
                {"type": "object", "additionalProperties": {"type": "string"}},
                {"type": "null"},
            ]
        },
    },
    "additionalProperties": False,
    "oneOf": [{"required": ["value"]}, {"required": ["value_base64"]}],
    "not": {"required": ["key", "key_base64"]},
}

_PROBLEM: Final = {
    "type": "object",
    "description": "An error (RFC 9457).",
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "error_code": {"type": "string", "enum": [str(code) for code in ErrorCode]},
        "retryable": described(
            {"type": "boolean"}, "The very same request may succeed later without anyone mending anything"
        ),
        "may_have_happened": described({"type": "boolean"}, "false promises that the request changed nothing"),
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "maxItems": 20,
            "items": object_of({"where": {"type": "string"}, "what": {"type": "string"}}),
        },
        "limit_bytes": COUNT,
    },
    "required": ["type", "title", "status", "detail", "error_code", "retryable", "may_have_happened"],
}

_PRODUCED: Final = object_of(
    {
        "topic": TOPIC_NAME,
        "partitions": list_of(
            object_of({"partition": PARTITION, "base_offset": OFFSET, "last_offset": OFFSET, "count": COUNT})
        ),
        "duplicate": {"type": "boolean"},
    }
)

_FETCHED: Final = object_of(
    {
        "topic": TOPIC_NAME,
        "partition": PARTITION,
        "records": list_of(ref("Record")),
        "next_offset": OFFSET,
        "high_watermark": OFFSET,
        "log_start_offset": OFFSET,
    }
)

COMPONENT_SCHEMAS: Final[dict[str, Any]] = {
    "Problem": _PROBLEM,
    "Record": _RECORD,
    "NewRecord": _NEW_RECORD,
    "Produced": _PRODUCED,
    "Fetched": _FETCHED,
}

PATH_PARAMETERS: Final[Mapping[str, dict[str, Any]]] = {
    "topic": {
        "name": "topic",
        "in": "path",
        "required": True,
        "description": "The topic's name",
        "schema": TOPIC_NAME,
        "example": "flights",
    },
    "partition": {
        "name": "partition",
        "in": "path",
        "required": True,
        "description": "The partition's number, from 0",
        "schema": PARTITION,
        "example": 0,
    },
}
