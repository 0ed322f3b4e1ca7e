"""Parameters and answers of a fetch, a fetch of several partitions, and a poll."""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from gateway.codec.media_type import ARROW_STREAM, EVENT_STREAM, NDJSON, PARQUET
from gateway.engine.fetch_answer import FetchFrom, FetchLimits, StartWord
from gateway.http import fields
from gateway.http.validation import faults_error
from gateway.openapi.problems import Problem, problems
from gateway.openapi.schemas import Record, binary, integer_headers, text
from gateway.routes.filter_fields import Filter, FilterQuery
from log_format import limits
from log_format.errors import ErrorCode

RECORDS_DEFAULT: Final = 500
RECORDS_MAX: Final = limits.FETCH_RECORDS_MAX
BYTES_DEFAULT: Final = 1024 * 1024
BYTES_MAX: Final = limits.FETCH_BYTES_MAX
WAIT_MS_MAX: Final = limits.FETCH_WAIT_MS_MAX
PARTITIONS_MAX: Final = 10_000
"""Most partitions of one fetch."""


class Limits(fields.Body):
    """Limits of the answer, and how long to wait for records."""

    max_records: Annotated[int, fields.Between(1, RECORDS_MAX), Field(description="Maximum number of records")] = (
        RECORDS_DEFAULT
    )
    max_bytes: Annotated[
        int,
        fields.Between(1, BYTES_MAX),
        Field(description="Maximum size of the records' keys, values and headers, in bytes"),
    ] = BYTES_DEFAULT
    min_bytes: Annotated[int, fields.Between(0), Field(description="Wait until this many bytes can be read")] = 1
    max_wait_ms: Annotated[
        int, fields.Between(0, WAIT_MS_MAX), Field(description="Maximum time to wait, in milliseconds")
    ] = 0

    def limits(self) -> FetchLimits:
        """Return the limits for the engine."""
        return FetchLimits(
            records_max=self.max_records,
            bytes_max=self.max_bytes,
            bytes_min=self.min_bytes,
            wait_ms_max=self.max_wait_ms,
        )


class FetchQuery(Limits, FilterQuery):
    """Position at which to begin, filter of the records, and limits."""

    offset: Annotated[
        fields.Offset | StartWord | None,
        fields.NotNull(),
        fields.ErrorMessage(f"must be an integer from 0 to {fields.INT64_MAX}, or one of earliest, latest"),
        Field(description="First offset to read. Exactly one of `offset` and `timestamp` must be given"),
    ] = None
    timestamp: Annotated[
        fields.Timestamp | None,
        fields.NotNull(),
        Field(
            description="Start at the first record, in offset order, with this timestamp (in milliseconds) or a later one"
        ),
    ] = None

    topic_id: Annotated[
        fields.Opaque | None,
        fields.NotNull(),
        Field(
            description="Id of the topic that `offset` belongs to. A topic re-created under the name is read from its start. "
            "The ids of an event stream contain it, too"
        ),
    ] = None

    _digits = field_validator("offset", "timestamp", *Limits.model_fields, mode="before")(fields.parse_number)


class EventId(NamedTuple):
    """Position at which a stream continues. ``topic_id``: the topic that the offset belongs to; None: any topic of that name."""

    offset: int
    topic_id: str | None


_EVENT_ID: Final = re.compile(r"([0-9]{1,19})(?:@([A-Za-z0-9_-]{1,64}))?")


def _event_id(text: str) -> str:
    match = _EVENT_ID.fullmatch(text)
    if match is None or int(match[1]) > fields.INT64_MAX:
        raise faults_error(
            [((), f"must be an integer from 0 to {fields.INT64_MAX}, or one with @ and a topic's id behind it")]
        )
    return text


class FetchHeaders(fields.Headers):
    """Headers of a fetch. Other headers are ignored."""

    model_config = ConfigDict(extra="ignore")

    last_event_id: Annotated[
        str | None,
        fields.NotNull(),
        AfterValidator(_event_id),
        WithJsonSchema({"type": "string", "pattern": f"^{_EVENT_ID.pattern}$"}),
        Field(
            alias="Last-Event-ID", description="For event streams: id of the last received event; overrides `offset`"
        ),
    ] = None

    @property
    def goes_on(self) -> EventId | None:
        """Position at which a stream continues; None: as its query says."""
        match = _EVENT_ID.fullmatch(self.last_event_id or "")
        return None if match is None else EventId(int(match[1]), match[2])


class Start(fields.PartitionKey):
    """A partition, and where to begin."""

    offset: Annotated[
        fields.Offset | StartWord, fields.ErrorMessage(f"must be an integer from 0 to {fields.INT64_MAX}")
    ]
    filter: Annotated[Filter | None, fields.NotNull(), Field(description="Which records; absent: all")] = None
    topic_id: Annotated[
        fields.Opaque | None,
        fields.NotNull(),
        Field(description="The topic that `offset` belongs to; one made anew under the name is read from its start"),
    ] = None


class FetchBody(
    Limits,
    example={"partitions": [{"topic": "flights", "partition": 3, "offset": "earliest"}], "max_wait_ms": 1000},
):
    """The partitions to read. Limits are totals."""

    partitions: Annotated[list[Start], Field(max_length=PARTITIONS_MAX), AfterValidator(fields.check_unique_partitions)]
    _wanted: list[FetchFrom] = PrivateAttr()

    @model_validator(mode="after")
    def _make_wanted(self) -> Self:
        # Made by the validator because a long body is validated in a thread, off the event loop.
        names: dict[str, str] = {}
        self._wanted = [
            FetchFrom(
                topic=names.setdefault(one.topic, one.topic),
                partition=one.partition,
                offset=one.offset,
                filter=None if one.filter is None else one.filter.record_filter,
                topic_id=one.topic_id,
            )
            for one in self.partitions
        ]
        return self

    @property
    def wanted(self) -> list[FetchFrom]:
        """The partitions to read, for the engine."""
        return self._wanted


class FetchedPartition(TypedDict):
    """Records of one partition. `next_offset` is where the next fetch continues.

    `topic_id`: id of the topic that the records belong to; a topic that is re-created under the same name has another id.
    """

    topic: fields.TopicName
    partition: fields.Partition
    records: list[Record]
    next_offset: fields.Offset
    high_watermark: fields.Offset
    log_start_offset: fields.Offset
    topic_id: str


class FailedPartition(TypedDict):
    """A partition that could not be read."""

    topic: fields.TopicName
    partition: fields.Partition
    error: Problem


class FetchedPartitions(TypedDict):
    """The result of each partition, in the order of the request."""

    partitions: list[FetchedPartition | FailedPartition]


FETCHED: Final = problems(
    ErrorCode.UNKNOWN_TOPIC,
    ErrorCode.UNKNOWN_PARTITION,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.NOT_ACCEPTABLE,
    ErrorCode.CORRUPT_SEGMENT,
    ErrorCode.UNSUPPORTED_TABLE,
) | {
    200: {
        "content": {
            NDJSON: text("A record a line"),
            ARROW_STREAM: binary("The table's columns"),
            EVENT_STREAM: text("Events `record`, `topic_recreated` and `end`"),
            PARQUET: binary("A file with the table's columns"),
        },
        "headers": integer_headers(
            Tidelog_Next_Offset="Where to go on",
            Tidelog_High_Watermark="The offset that the next record gets",
            Tidelog_Log_Start_Offset="The first offset that can be read",
        ),
    }
}
