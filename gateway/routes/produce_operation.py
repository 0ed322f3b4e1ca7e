"""Produce in the OpenAPI document, and its parameters."""

from __future__ import annotations

from typing import Any, Final

from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON, OCTET_STREAM, TEXT_PLAIN
from gateway.http.parameters import Parameter, QueryParameters, choice, integer, text
from gateway.http.producer_headers import PARAMETERS, TRANSACTION_PARAMETER
from gateway.openapi.document import answer, integer_header, media, operation, request_body
from gateway.openapi.schemas import NEW_RECORD_EXAMPLE, TOPIC_NAME, list_of, object_of, ref
from log_format.errors import ErrorCode
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

PARTITION_COUNT_HEADER: Final = "Tidelog-Partition-Count"
"""So that a producer that chooses partitions by key learns of new ones with its next answer."""

_ACKS: Final = choice("acks", "all: answer when it is stored. 0: answer at once, perhaps lose it", words=("all", "0"))
_RAW_PARAMETERS: Final[tuple[Parameter, ...]] = (
    text("key", "Raw bodies: the key, as text", length_max=1 << 20),
    text("key_base64", "Raw bodies: the key, as base64", length_max=1 << 20),
    integer("partition", "Raw bodies: the partition", minimum=0, maximum=(1 << 31) - 1),
    integer("timestamp", "Raw bodies: milliseconds", minimum=TIMESTAMP_MS_MIN, maximum=TIMESTAMP_MS_MAX),
)
BATCH_QUERY: Final = QueryParameters(_ACKS)
RAW_QUERY: Final = QueryParameters(_ACKS, *_RAW_PARAMETERS)

_BINARY: Final = {"type": "string", "contentMediaType": "application/octet-stream"}
_BODY: Final = request_body(
    {
        JSON: media(
            object_of({"records": list_of(ref("NewRecord"))}, closed=True), example={"records": [NEW_RECORD_EXAMPLE]}
        ),
        NDJSON: media({"type": "string", "description": "A record a line"}),
        ARROW_STREAM: media(
            {**_BINARY, "description": "An Arrow IPC stream: value, key?, headers?, timestamp?, partition?"}
        ),
        OCTET_STREAM: media({**_BINARY, "description": "One record's value"}),
        TEXT_PLAIN: media({"type": "string", "description": "One record's value"}),
    }
)
_PRODUCED: Final = {
    "topic": "flights",
    "partitions": [{"partition": 3, "base_offset": 41, "last_offset": 41, "count": 1}],
    "duplicate": False,
}
_HEADERS: Final = {PARTITION_COUNT_HEADER: integer_header("How many partitions the topic has now")}
_ANSWERS: Final = {
    200: answer("They are in the store", ref("Produced"), example=_PRODUCED, headers=_HEADERS),
    202: answer(
        "They are accepted (`acks=0`), and may be lost; or they wait for their transaction",
        object_of(
            {
                "topic": TOPIC_NAME,
                "staged": {"type": "integer", "minimum": 0},
                "duplicate": {"type": "boolean"},
            },
            required=(),
        ),
        headers=_HEADERS,
    ),
}
_ERRORS: Final = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
    ErrorCode.REQUEST_TOO_LARGE,
    ErrorCode.RECORD_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
    ErrorCode.OUTCOME_UNKNOWN,
    ErrorCode.UNKNOWN_PRODUCER,
    ErrorCode.FENCED_PRODUCER,
    ErrorCode.SEQUENCE_OUT_OF_ORDER,
    ErrorCode.UNKNOWN_TRANSACTION,
    ErrorCode.TRANSACTION_NOT_OPEN,
    ErrorCode.UNSUPPORTED_TABLE,
)

PRODUCE: Final[dict[str, Any]] = operation(
    summary="Append records; each goes to its partition, its key's, or the next in turn",
    tag="produce",
    path=("topic",),
    query=RAW_QUERY,
    headers=(*PARAMETERS[:3], TRANSACTION_PARAMETER),
    body=_BODY,
    answers=_ANSWERS,
    errors=_ERRORS,
)
PRODUCE_TO_PARTITION: Final[dict[str, Any]] = operation(
    summary="Append records to one partition",
    tag="produce",
    path=("topic", "partition"),
    query=RAW_QUERY,
    headers=(*PARAMETERS, TRANSACTION_PARAMETER),
    body=_BODY,
    answers=_ANSWERS,
    errors=(*_ERRORS, ErrorCode.EXPECTED_OFFSET_MISMATCH),
)
