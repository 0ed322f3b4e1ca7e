"""Fetch in the OpenAPI document, and its parameters."""

from __future__ import annotations

from typing import Any, Final

from gateway.codec.media_type import ARROW_STREAM, EVENT_STREAM, JSON, NDJSON
from gateway.http.parameters import QueryParameters, integer, integer_or_word
from gateway.openapi.document import answer, integer_header, media, operation, request_body
from gateway.openapi.schemas import OFFSET, PARTITION, RECORD_EXAMPLE, TOPIC_NAME, list_of, object_of, ref
from gateway.routes.fetch_body import LIMITS
from log_format.errors import ErrorCode
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

_START_WORDS: Final = ("earliest", "latest")
QUERY: Final = QueryParameters(
    integer_or_word("offset", "Where to begin; exactly one of this and `timestamp`", words=_START_WORDS),
    integer(
        "timestamp",
        "Begin with the first record, in offset order, of this time or later",
        minimum=TIMESTAMP_MS_MIN,
        maximum=TIMESTAMP_MS_MAX,
    ),
    *LIMITS,
)
_EXAMPLE: Final = {
    "topic": "flights",
    "partition": 3,
    "records": [RECORD_EXAMPLE],
    "next_offset": 42,
    "high_watermark": 42,
    "log_start_offset": 0,
}
_POSITION_HEADERS: Final = {
    "Tidelog-Next-Offset": integer_header("Where to go on"),
    "Tidelog-High-Watermark": integer_header("The offset that the next record gets"),
    "Tidelog-Log-Start-Offset": integer_header("The first offset that can be read"),
}
_LAST_EVENT_ID: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Event streams: where to go on; wins over `offset`",
    "schema": OFFSET,
}
_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.NOT_ACCEPTABLE,
    ErrorCode.CORRUPT_SEGMENT,
    ErrorCode.UNSUPPORTED_TABLE,
)
_START: Final = {"anyOf": [OFFSET, {"type": "string", "enum": list(_START_WORDS)}]}
_WANTED: Final = object_of(
    {
        "partitions": list_of(object_of({"topic": TOPIC_NAME, "partition": PARTITION, "offset": _START}, closed=True)),
        **{parameter.name: dict(parameter.schema) for parameter in LIMITS},
    },
    required=("partitions",),
    closed=True,
)
_FAILED: Final = object_of({"topic": TOPIC_NAME, "partition": PARTITION, "error": ref("Problem")})
_MANY: Final = object_of({"partitions": list_of({"anyOf": [ref("Fetched"), _FAILED]})})

FETCH: Final[dict[str, Any]] = operation(
    summary="Read a partition, waiting for records if there are none; or follow it",
    tag="fetch",
    path=("topic", "partition"),
    query=QUERY,
    headers=(_LAST_EVENT_ID,),
    answers={
        200: answer(
            "Records, and where to go on",
            {
                JSON: media(ref("Fetched"), example=_EXAMPLE),
                NDJSON: media({"type": "string", "description": "A record a line"}),
                ARROW_STREAM: media({"type": "string", "contentMediaType": ARROW_STREAM}),
                EVENT_STREAM: media({"type": "string", "description": "Events `record` and `end`"}),
            },
            headers=_POSITION_HEADERS,
        )
    },
    errors=_ERRORS,
)
FETCH_MANY: Final[dict[str, Any]] = operation(
    summary="Read several partitions at once; limits are totals",
    tag="fetch",
    body=request_body(
        _WANTED,
        example={"partitions": [{"topic": "flights", "partition": 3, "offset": "earliest"}], "max_wait_ms": 1000},
    ),
    answers={200: answer("What each gave, in the order of the request", _MANY, example={"partitions": [_EXAMPLE]})},
    errors=(ErrorCode.NOT_ACCEPTABLE, ErrorCode.REQUEST_TOO_LARGE, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
)
