"""Produce: a request's records, read, decoded, routed, submitted, committed, answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from gateway.codec.body_records import decode_body
from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON, OCTET_STREAM, TEXT_PLAIN, content_type
from gateway.engine.bounds import SEQUENCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.writer import Acknowledgement
from gateway.gateway import gateway_of
from gateway.http import fields
from gateway.http.body import has_body, request_body
from gateway.http.parameters import parameters_refused
from gateway.http.producer_headers import ConditionalHeaders, ProduceHeaders
from gateway.http.validation import UNKNOWN_PARAMETER
from gateway.log_engine import LogEngine
from gateway.openapi.problems import CHANGE_ERRORS, problems
from gateway.openapi.schemas import NEW_RECORD_EXAMPLE, RecordToDecode, binary, integer_headers, schema_of, text
from gateway.routes.batch import CodecWork, Routing, routed
from gateway.routes.transactions import AppendedPartition, AppendedTopic
from gateway.routes.typed_route import TypedRoute
from log_format.clock import Clock
from log_format.errors import ErrorCode, TidelogError, TopicReplaced
from log_format.topic.append import Batch
from log_format.topic.appended import Duplicate
from log_format.topic.producers import ProducerStamp

router = APIRouter(route_class=TypedRoute, tags=["produce"])

_Key = Annotated[str, Field(max_length=1 << 20)]
_COMPRESSION_RATIO: Final = 4
"""What a compressed body is taken to become, until it is there."""
_encode: Final = msgspec.json.Encoder().encode


class ProduceQuery(fields.Parameters):
    """All but `acks` describe the one record of a raw body."""

    acks: Annotated[
        str,
        fields.OneOf("all", "0"),
        Field(description="all: answer when it is stored. 0: answer at once, perhaps lose it"),
    ] = "all"
    key: Annotated[_Key | None, fields.NotNull(), Field(description="Raw bodies: the key, as text")] = None
    key_base64: Annotated[_Key | None, fields.NotNull(), Field(description="Raw bodies: the key, as base64")] = None
    partition: Annotated[
        fields.Partition | None, fields.NotNull(), fields.Digits, Field(description="Raw bodies: the partition")
    ] = None
    timestamp: Annotated[
        fields.Timestamp | None, fields.NotNull(), fields.Digits, Field(description="Raw bodies: milliseconds")
    ] = None


class NewRecords(fields.Body):
    """Records to append. It only describes: they are decoded without it."""

    records: list[RecordToDecode]


class Produced(AppendedTopic):
    """They are in the store."""

    duplicate: bool


class Accepted(TypedDict, total=False):
    """`topic` with `acks=0`; `staged`, a count of records, within a transaction."""

    topic: fields.TopicName
    staged: fields.Count
    duplicate: bool


_PRODUCED: Final = {
    "topic": "flights",
    "partitions": [{"partition": 3, "base_offset": 41, "last_offset": 41, "count": 1}],
    "duplicate": False,
}
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


def _described(*errors: ErrorCode) -> dict[str, Any]:
    content = {
        JSON: {"schema": schema_of(NewRecords), "example": {"records": [NEW_RECORD_EXAMPLE]}},
        NDJSON: text("A record a line"),
        ARROW_STREAM: binary("An Arrow IPC stream: value, key?, headers?, timestamp?, partition?"),
        OCTET_STREAM: binary("One record's value"),
        TEXT_PLAIN: text("One record's value"),
    }
    accepted = "They are accepted (`acks=0`), and may be lost; or they wait for their transaction"
    return {
        "response_model": Produced,
        "responses": problems(*_ERRORS, *errors)
        | {
            200: {"content": {JSON: {"example": _PRODUCED}}, "headers": _HEADERS},
            202: {"model": Accepted, "description": accepted, "headers": _HEADERS},
        },
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
    }


@router.post("/v1/topics/{topic}/records", **_described())
async def produce(
    request: Request,
    topic: fields.TopicPath,
    query: Annotated[ProduceQuery, Query()],
    headers: Annotated[ProduceHeaders, Header()],
) -> Response:
    """Append records; each goes to its partition, its key's, or the next in turn."""
    return await _produce(request, _Asked(topic, None, query, headers))


@router.post("/v1/topics/{topic}/partitions/{partition}/records", **_described(ErrorCode.EXPECTED_OFFSET_MISMATCH))
async def produce_to_partition(
    request: Request,
    topic: fields.TopicPath,
    partition: fields.PartitionPath,
    query: Annotated[ProduceQuery, Query()],
    headers: Annotated[ConditionalHeaders, Header()],
) -> Response:
    """Append records to one partition, also those that name another one."""
    return await _produce(request, _Asked(topic, partition, query, headers, headers.expected_offset))


async def _produce(request: Request, asked: _Asked) -> Response:
    """Read, decode, route, submit, commit, answer; from routing on once more where ``_Tries`` says so."""
    gateway = gateway_of(request)
    engine, clock, bytes_max = gateway.engine, gateway.clock, gateway.settings.request_bytes_max
    kind, stamp, transaction_id = asked.kind(request), asked.headers.stamp, asked.headers.transaction_id
    if transaction_id is None:
        await engine.check_producer(stamp)
    with await engine.turn_of(_length(request, bytes_max)):
        async with request_body(request, gateway.body_limits, gateway.request_memory, pool=gateway.codec_pool) as body:
            codec, arrived_at_ms = CodecWork(len(body.data), gateway.codec_pool), clock.now_ms()
            topic = await engine.open_topic(asked.topic, asked.partition)
            incoming = await codec.do(lambda: decode_body(kind, body.data, bytes_max, dict(asked.query)))
            routing = Routing(
                partition=asked.partition,
                turn=topic.next_in_turn(),
                arrived_at_ms=arrived_at_ms,
                stamp=stamp,
                expected_offset=asked.expected_offset,
            )
            tries = _Tries(clock)
            while True:
                batch = await routed(topic, incoming, routing, codec, clock)
                if transaction_id is not None:
                    return await _staged(engine, topic, batch, transaction_id, stamp)
                if batch is None:
                    return _answer(topic, ()) if asked.waits else _accepted(topic)
                pending = await topic.submit_in_order(batch, body.handed_over(batch.records.nbytes), tries.deadline_ms)
                if not asked.waits:
                    return _accepted(topic)
                try:
                    return _answer(topic, await topic.writer.acknowledged(pending))
                except TidelogError as refusal:
                    tries.check(refusal)
                    await topic.fresh(clock.monotonic_ms())


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request says before its body."""

    topic: str
    partition: int | None
    query: ProduceQuery
    headers: ProduceHeaders
    expected_offset: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it is answered once its records are stored."""
        return self.query.acks != "0"

    def kind(self, request: Request) -> str:
        """The body's media type. Raises ``RequestRefused`` where parameters and headers do not go with it, or with each other."""
        header = request.headers.get("content-type")
        kind = content_type(header, default=JSON if header is None and not has_body(request) else None)
        if kind not in (OCTET_STREAM, TEXT_PLAIN) and (names := self.query.model_fields_set - {"acks"}):
            raise parameters_refused([(name, UNKNOWN_PARAMETER) for name in sorted(names)])
        if not self.waits and self.headers.model_fields_set:
            raise parameters_refused([(name, "does not go with acks=0") for name in self.headers.given], "Header")
        return kind


def _length(request: Request, bytes_max: int) -> int:
    """About how long the body will be; 0 where nothing is said of it, and where it will be refused for it."""
    text = request.headers.get("content-length", "")
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if "content-encoding" in request.headers:
        return min(length * _COMPRESSION_RATIO, bytes_max)
    return length if length <= bytes_max else 0


class _Tries:
    """Whether a refused request is routed and submitted once more: where the topic, or those before it, made that necessary."""

    def __init__(self, clock: Clock) -> None:
        self.deadline_ms = clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
        """Until when it waits for those before it."""
        self._clock = clock
        self._was_replaced = False

    def check(self, refusal: TidelogError) -> None:
        """Raise it unless another try may end otherwise."""
        if isinstance(refusal, TopicReplaced) and not self._was_replaced:
            self._was_replaced = True
            return
        is_ahead = refusal.code is ErrorCode.SEQUENCE_OUT_OF_ORDER and refusal.retryable
        if not is_ahead or self._clock.monotonic_ms() >= self.deadline_ms:
            raise refusal


async def _staged(
    engine: LogEngine, topic: OpenTopic, batch: Batch | None, transaction_id: str, stamp: ProducerStamp | None
) -> Response:
    """Put the records beside the topics, for the transaction."""
    count = 0 if batch is None else batch.records.num_rows
    is_new = True
    if batch is None:
        await engine.transactions.usable(transaction_id)
    else:
        is_new = await engine.transactions.stage(transaction_id, topic.name, batch, stamp)
    staged: Accepted = {"staged": count} if is_new else {"staged": count, "duplicate": True}
    return _json(staged, 202, topic)


def _accepted(topic: OpenTopic) -> Response:
    accepted: Accepted = {"topic": topic.name}
    return _json(accepted, 202, topic)


def _answer(topic: OpenTopic, acknowledged: Acknowledgement) -> Response:
    is_duplicate = isinstance(acknowledged, Duplicate)
    places = acknowledged.places if isinstance(acknowledged, Duplicate) else acknowledged
    partitions: list[AppendedPartition] = [
        {
            "partition": place.partition,
            "base_offset": place.base_offset,
            "last_offset": place.base_offset + place.count - 1,
            "count": place.count,
        }
        for place in places
    ]
    produced: Produced = {"topic": topic.name, "partitions": partitions, "duplicate": is_duplicate}
    return _json(produced, 200, topic)


def _json(members: Produced | Accepted, status: int, topic: OpenTopic) -> Response:
    headers = {"tidelog-partition-count": str(topic.state.partition_count)}
    return Response(_encode(members), status, headers, media_type=JSON)
