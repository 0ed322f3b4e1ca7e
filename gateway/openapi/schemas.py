"""Schemas of types, among them the records of requests and answers: these types are only documentation, as no record becomes
an object."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, WithJsonSchema, with_config
from typing_extensions import TypedDict

from gateway.http import fields

_REF_TEMPLATE: Final = "#/components/schemas/{model}"


def reference(kind: type) -> dict[str, str]:
    """Return a reference to the component of a named type."""
    return {"$ref": _REF_TEMPLATE.format(model=kind.__name__)}


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the schema of a type, by reference if it has a name; ``document`` makes components of its ``$defs``."""
    schemas, definitions = TypeAdapter.json_schemas([("", "validation", TypeAdapter(kind))], ref_template=_REF_TEMPLATE)
    return {**schemas["", "validation"], **definitions}


def integer_headers(**descriptions: str) -> dict[str, Any]:
    """Return Header Objects for whole numbers, such as offsets; in names an underscore stands for a hyphen."""
    schema = schema_of(fields.Count)
    return {
        name.replace("_", "-"): {"description": description, "schema": schema}
        for name, description in descriptions.items()
    }


def binary(description: str) -> dict[str, Any]:
    """Return a Media Type Object of bytes."""
    return {"schema": {"type": "string", "contentMediaType": "application/octet-stream", "description": description}}


def text(description: str) -> dict[str, Any]:
    """Return a Media Type Object of text."""
    return {"schema": {"type": "string", "description": description}}


NEW_RECORD_EXAMPLE: Final[dict[str, JsonValue]] = {
    "key": "user-7",
    "value": {"amount": 3},
    "headers": {"trace": "ab"},
}
_STORED_EXAMPLE: Final[dict[str, JsonValue]] = {
    "partition": 3,
    "offset": 41,
    "timestamp": 1763683200000,
    "key": "user-7",
    "value": '{"amount":3}',
    "headers": [{"key": "trace", "value": "ab"}],
}
_ONE_VALUE: Final[dict[str, JsonValue]] = {"oneOf": [{"required": ["value"]}, {"required": ["value_base64"]}]}
_Base64 = Annotated[
    str, WithJsonSchema({"type": "string", "contentEncoding": "base64", "pattern": "^[A-Za-z0-9+/]*={0,2}$"})
]
_Timestamp = Annotated[fields.Timestamp, Field(description="Milliseconds since the epoch")]


@with_config(ConfigDict(extra="forbid", json_schema_extra={**_ONE_VALUE}))
class RecordHeader(TypedDict):
    """A header, with exactly one of `value` and `value_base64`."""

    key: str
    value: NotRequired[str | None]
    value_base64: NotRequired[_Base64]


@with_config(ConfigDict(json_schema_extra={"examples": [_STORED_EXAMPLE]}))
class Record(TypedDict):
    """A stored record. Bytes that are not UTF-8 have the name with `_base64`, and the plain name is absent."""

    partition: fields.Partition
    offset: fields.Offset
    timestamp: _Timestamp
    key: NotRequired[str | None]
    key_base64: NotRequired[_Base64]
    value: NotRequired[Annotated[str | None, Field(description="null is a tombstone")]]
    value_base64: NotRequired[_Base64]
    headers: list[RecordHeader]


@with_config(ConfigDict(extra="forbid", json_schema_extra={**_ONE_VALUE, "not": {"required": ["key", "key_base64"]}}))
class NewRecord(TypedDict):
    """A record to append. Exactly one of `value`, `value_base64`; one of `key`, `key_base64`; one of the `deliver_` members."""

    partition: NotRequired[fields.Partition | None]
    offset: NotRequired[Annotated[Any, Field(description="Ignored: a fetched record can be produced again as it is")]]
    timestamp: NotRequired[_Timestamp | None]
    key: NotRequired[str | None]
    key_base64: NotRequired[_Base64]
    value: NotRequired[
        Annotated[
            Any, Field(description="A string is its UTF-8 bytes, null a tombstone, anything else its compact JSON")
        ]
    ]
    value_base64: NotRequired[_Base64]
    headers: NotRequired[list[RecordHeader] | dict[str, str] | None]
    expires_at: NotRequired[
        Annotated[
            fields.Timestamp | None,
            Field(description="Queues do not deliver it from then on; stored as a header of this name"),
        ]
    ]
    deliver_at: NotRequired[
        Annotated[_Timestamp | None, Field(description="The record appears at this time, in milliseconds")]
    ]
    deliver_after_ms: NotRequired[
        Annotated[_Timestamp | None, Field(description="The record appears so many milliseconds after its arrival")]
    ]


RecordToDecode = Annotated[Any, WithJsonSchema(reference(NewRecord))]
"""A record in a model of a body: documented, but not parsed, by the model."""
