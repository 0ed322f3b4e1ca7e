"""Produce's query, body and answers, as the OpenAPI document has them. Its headers: ``gateway/http/producer_headers.py``."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON, OCTET_STREAM, TEXT_PLAIN
from gateway.http import fields
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.openapi.schemas import NEW_RECORD_EXAMPLE, RecordToDecode, binary, integer_headers, schema_of, text
from gateway.routes.transactions import AppendedTopic
from log_format.errors import ErrorCode

_Key = Annotated[str, Field(max_length=1 << 20)]


class ProduceQuery(fields.Parameters):
    """Parameters of a produce request. All but `acks` describe the only record of a raw body."""

    acks: Annotated[
        str,
        fields.OneOf("all", "0"),
        Field(
            description="`all`: the answer is sent when the records are stored; `0`: immediately, and they may be lost"
        ),
    ] = "all"
    key: Annotated[_Key | None, fields.NotNull(), Field(description="Raw bodies: the key, as text")] = None
    key_base64: Annotated[_Key | None, fields.NotNull(), Field(description="Raw bodies: the key, as base64")] = None
    partition: Annotated[
        fields.Partition | None, fields.NotNull(), fields.Digits, Field(description="Raw bodies: the partition")
    ] = None
    timestamp: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        fields.Digits,
        Field(description="Raw bodies: the timestamp in milliseconds"),
    ] = None
    deliver_at: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        fields.Digits,
        Field(description="Raw bodies: time at which the record is published, in milliseconds"),
    ] = None
    deliver_after_ms: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        fields.Digits,
        Field(description="Raw bodies: delay after which the record is published, in milliseconds"),
    ] = None


class NewRecords(fields.Body, example={"records": [NEW_RECORD_EXAMPLE]}):
    """The records to append."""

    records: list[RecordToDecode]


class ScheduledRecord(TypedDict):
    """A delayed record: it is stored, and appears in the topic at its time. `index`: in the request, from 0."""

    id: fields.Opaque
    deliver_at: fields.Offset
    index: fields.Count


class DeadLetter(TypedDict):
    """A record that is not of the topic's schemas, and went to its topic of dead letters. `index`: in the request, from 0.

    `partition` and `offset` are missing if an earlier try of the request put it there.
    """

    index: fields.Count
    topic: fields.TopicName
    partition: NotRequired[fields.Partition]
    offset: NotRequired[fields.Offset]
    reason: str


class Produced(AppendedTopic):
    """The records are stored. `scheduled` is present if the request had delayed records, `dead_letters` if some are not of the
    topic's schemas (`data.on.error=dead-letter`)."""

    duplicate: bool
    scheduled: NotRequired[list[ScheduledRecord]]
    dead_letters: NotRequired[list[DeadLetter]]


class Accepted(TypedDict, total=False):
    """`topic` with `acks=0`; `staged`, a count of records, within a transaction."""

    topic: fields.TopicName
    staged: fields.Count
    duplicate: bool


_HEADERS: Final = integer_headers(Tidelog_Partition_Count="How many partitions the topic has now")
_ERRORS: Final = (
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
    ErrorCode.RECORD_TOO_LARGE,
    *CHANGE_ERRORS,
    ErrorCode.UNKNOWN_PRODUCER,
    ErrorCode.FENCED_PRODUCER,
    ErrorCode.SEQUENCE_OUT_OF_ORDER,
    ErrorCode.UNKNOWN_TRANSACTION,
    ErrorCode.TRANSACTION_NOT_OPEN,
    ErrorCode.UNSUPPORTED_TABLE,
)


def _operation(*errors: ErrorCode) -> dict[str, Any]:
    content = {
        JSON: {"schema": schema_of(NewRecords)},
        NDJSON: text("A record a line"),
        ARROW_STREAM: binary("An Arrow IPC stream: value, and the other members of a record"),
        OCTET_STREAM: binary("One record's value"),
        TEXT_PLAIN: text("One record's value"),
    }
    accepted = "The records are accepted: with `acks=0` they may be lost, in a transaction they wait for its commit."
    return {
        "response_model": Produced,
        "responses": problems(*_ERRORS, *errors)
        | {
            200: {"headers": _HEADERS},
            202: {"model": Accepted, "description": accepted, "headers": _HEADERS},
        },
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


PRODUCE: Final = _operation()
PRODUCE_TO_PARTITION: Final = _operation(ErrorCode.EXPECTED_OFFSET_MISMATCH)
