"""Produce: a request's records, decoded, routed, appended, acknowledged.

What is large is decoded in the codec pool; what is small, on the event loop, where changing threads would cost more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.codec.arrow_body import decode_arrow
from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_body import decode_json
from gateway.codec.media_type import ARROW_STREAM, JSON, NDJSON, OCTET_STREAM, TEXT_PLAIN, content_type
from gateway.codec.ndjson_body import decode_ndjson
from gateway.codec.raw_body import decode_raw
from gateway.codec.record_key import refuse_keyless
from gateway.codec.record_size import refuse_large
from gateway.codec.route import route
from gateway.engine.bounds import SEQUENCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.writer import Acknowledgement
from gateway.gateway import Gateway, engine_of, gateway_of
from gateway.http.body import Body, has_body, request_body
from gateway.http.direct_route import DirectRoute
from gateway.http.parameters import Parameter, QueryParameters, choice, integer, path_partition, path_topic, text
from gateway.http.producer_headers import PARAMETERS, TRANSACTION_PARAMETER, ProducerHeaders, producer_headers
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.openapi.document import answer, integer_header, media, operation
from gateway.openapi.document import request_body as body_of
from gateway.openapi.schemas import NEW_RECORD_EXAMPLE, TOPIC_NAME, list_of, object_of, ref
from log_format.errors import ErrorCode, RequestRefused, TopicReplaced, UnknownPartition
from log_format.records.partitioner import partition_for_key
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN
from log_format.records.size import record_bytes
from log_format.topic.append import Batch
from log_format.topic.appended import Duplicate
from log_format.topic.producer_id import TRANSACTIONAL, kind_of
from log_format.topic.state import TopicState

router = APIRouter(route_class=DirectRoute)

INLINE_BYTES_MAX: Final = 64 * 1024
"""What is longer is decoded in a thread."""
_COMPRESSION_RATIO: Final = 4
"""What a compressed body is taken to become, until it is there."""
_BY_STATE: Final = (ErrorCode.INVALID_RECORD, ErrorCode.RECORD_TOO_LARGE, ErrorCode.UNKNOWN_PARTITION)
"""Refusals that an older state of the topic may be to blame for."""
_COPIED_ABOVE: Final = 2
"""Arrow records refer to the body; when that is so many times their size they are copied, lest the rest stay in memory."""

_ACKS: Final = choice("acks", "all: answer when it is stored. 0: answer at once, perhaps lose it", words=("all", "0"))
_RAW_PARAMETERS: Final[tuple[Parameter, ...]] = (
    text("key", "Raw bodies: the key, as text", length_max=1 << 20),
    text("key_base64", "Raw bodies: the key, as base64", length_max=1 << 20),
    integer("partition", "Raw bodies: the partition", minimum=0, maximum=(1 << 31) - 1),
    integer("timestamp", "Raw bodies: milliseconds", minimum=TIMESTAMP_MS_MIN, maximum=TIMESTAMP_MS_MAX),
)
_BATCHES: Final = QueryParameters(_ACKS)
_ONE: Final = QueryParameters(_ACKS, *_RAW_PARAMETERS)

_BINARY: Final = {"type": "string", "contentMediaType": "application/octet-stream"}
_BODY: Final = body_of(
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
PARTITION_COUNT_HEADER: Final = "Tidelog-Partition-Count"
"""So that a producer that chooses partitions by key learns of new ones with its next answer."""
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
_encode: Final = msgspec.json.Encoder().encode


@router.post(
    "/v1/topics/{topic}/records",
    **operation(
        summary="Append records; each goes to its partition, its key's, or the next in turn",
        tag="produce",
        path=("topic",),
        query=_ONE,
        headers=(*PARAMETERS[:3], TRANSACTION_PARAMETER),
        body=_BODY,
        answers=_ANSWERS,
        errors=_ERRORS,
    ),
)
async def produce(request: Request) -> Response:
    """Append records of a topic."""
    return await _produce(request, None)


@router.post(
    "/v1/topics/{topic}/partitions/{partition}/records",
    **operation(
        summary="Append records to one partition",
        tag="produce",
        path=("topic", "partition"),
        query=_ONE,
        headers=(*PARAMETERS, TRANSACTION_PARAMETER),
        body=_BODY,
        answers=_ANSWERS,
        errors=(*_ERRORS, ErrorCode.EXPECTED_OFFSET_MISMATCH),
    ),
)
async def produce_to_partition(request: Request) -> Response:
    """Append records of a partition; those that name another one go to this one all the same."""
    return await _produce(request, path_partition(request))


async def _produce(request: Request, partition: int | None) -> Response:
    gateway = gateway_of(request)
    engine = engine_of(request)
    name = path_topic(request)
    header = request.headers.get("content-type")
    kind = content_type(header, default=JSON if header is None and not has_body(request) else None)
    query = (_ONE if kind in (OCTET_STREAM, TEXT_PLAIN) else _BATCHES).parse(request)
    headers = producer_headers(request, partition=partition, acks=query["acks"])
    if headers.stamp is not None and headers.transaction_id is None:
        if kind_of(headers.stamp.producer_id) == TRANSACTIONAL:
            await engine.transactions.check(headers.stamp)
        else:
            await engine.producer_ids.check(headers.stamp)
    with await engine.turn_of(_length(request, gateway.settings.request_bytes_max)):
        return await _append(request, name, Asked(partition, headers), kind, query)


async def _append(request: Request, name: str, asked: Asked, kind: str, query: Mapping[str, Any]) -> Response:
    gateway = gateway_of(request)
    engine = engine_of(request)
    async with request_body(request, gateway.body_limits, gateway.request_memory, pool=gateway.codec_pool) as body:
        parse = partial(_decoded, kind, body.data, gateway.settings.request_bytes_max, query)
        sent = Sent(parse=parse, size_bytes=len(body.data), asked=asked, arrived_at_ms=gateway.clock.now_ms())
        topic = await engine.open_topic(name)
        incoming, batch = await prepared(gateway, engine, topic, sent)
        if asked.headers.transaction_id is not None:
            return await _staged(engine, topic, batch, asked.headers)
        if batch is None:
            return _answer(topic, (), query["acks"])
        surplus = batch.records.nbytes - body.reservation.size_bytes
        if surplus > 0:
            body.reservation.grow(surplus)
        if query["acks"] == "0":
            engine.append(topic, batch, body.keep())
            return _answer(topic, (), "0")
        route_again = partial(_batch, incoming, sent=sent)
        acknowledgement = await _acknowledged(engine, topic, batch, body, route_again, memory=gateway.request_memory)
        return _answer(topic, acknowledgement, "all")


async def _staged(engine: LogEngine, topic: OpenTopic, batch: Batch | None, headers: ProducerHeaders) -> Response:
    """Put the records beside the topics, for the transaction that the headers name."""
    assert headers.transaction_id is not None
    count = 0 if batch is None else batch.records.num_rows
    is_new = True
    if batch is None:
        await engine.transactions.usable(headers.transaction_id)
    else:
        is_new = await engine.transactions.stage(headers.transaction_id, topic.name, batch, headers.stamp)
    return _json({"staged": count} | ({} if is_new else {"duplicate": True}), 202, topic)


async def _acknowledged(
    engine: LogEngine,
    topic: OpenTopic,
    batch: Batch,
    body: Body,
    route_again: Callable[..., Batch],
    *,
    memory: MemoryBudget,
) -> Acknowledgement:
    """Append in the order of the producer's sequences; once more where the topic or those before it made that necessary."""
    deadline_ms = engine.clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
    replaced = False
    reservation = body.reservation
    while True:
        try:
            if batch.stamp is not None:
                await topic.sequencing.turn(batch.stamp, deadline_ms)
            pending = engine.append(topic, batch, reservation)
        except BaseException:
            reservation.release()
            raise
        body.keep()
        body.data = b""
        try:
            return await engine.acknowledged(topic, pending)
        except TopicReplaced:
            if replaced:  # somebody replaces it for a living
                raise
            replaced = True
            await topic.fresh(engine.clock.monotonic_ms())
            batch = route_again(topic.existing(), turn=topic.next_in_turn())
        except RequestRefused as refusal:
            is_ahead = refusal.code is ErrorCode.SEQUENCE_OUT_OF_ORDER and refusal.retryable
            if not is_ahead or engine.clock.monotonic_ms() >= deadline_ms:
                raise
        # The writer gave the memory back when it settled the batch, which is still here.
        reservation = memory.reserve(batch.records.nbytes)


def _length(request: Request, bytes_max: int) -> int:
    """About how long the body will be; 0 where nothing is said of it, and where it will be refused for it."""
    text = request.headers.get("content-length", "")
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if "content-encoding" in request.headers:
        return min(length * _COMPRESSION_RATIO, bytes_max)
    return length if length <= bytes_max else 0


@dataclass(frozen=True, slots=True)
class Asked:
    """The partition that the route names, and what the headers ask for."""

    partition: int | None
    headers: ProducerHeaders


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a client sent: how to parse it, its length, what was asked beside it, when it came."""

    parse: Callable[[], IncomingRecords]
    size_bytes: int
    asked: Asked
    arrived_at_ms: int

    @property
    def partition(self) -> int | None:
        """The partition that the route names."""
        return self.asked.partition


async def prepared(
    gateway: Gateway, engine: LogEngine, topic: OpenTopic, sent: Sent
) -> tuple[IncomingRecords, Batch | None]:
    """The records, and their batch (None without records) for the topic as it is known, or, before refusing, as it is now."""
    turn = topic.next_in_turn()
    state = topic.existing()
    while True:
        try:
            if sent.size_bytes <= INLINE_BYTES_MAX:
                return _prepare(sent, state, turn)
            return await asyncio.get_running_loop().run_in_executor(gateway.codec_pool, _prepare, sent, state, turn)
        except RequestRefused as refusal:
            if refusal.code not in _BY_STATE:
                raise
            await topic.fresh(engine.clock.monotonic_ms())
            newer = topic.existing()
            if (newer.partition_count, newer.config) == (state.partition_count, state.config):
                raise
            state = newer


def _prepare(sent: Sent, state: TopicState, turn: int) -> tuple[IncomingRecords, Batch | None]:
    _check_partition(sent, state)
    incoming = sent.parse()
    is_used_up = sent.asked.headers.stamp is not None
    return incoming, _batch(incoming, state, sent, turn) if len(incoming) or is_used_up else None


def _decoded(kind: str, data: bytes, bytes_max: int, query: Mapping[str, Any]) -> IncomingRecords:
    """The body's records. Raises ``RequestRefused``."""
    if kind == JSON:
        return decode_json(data)
    if kind == NDJSON:
        return decode_ndjson(data)
    if kind == ARROW_STREAM:
        incoming = decode_arrow(data, bytes_max=bytes_max)
        if len(data) > _COPIED_ABOVE * incoming.records.nbytes and len(incoming):
            return replace(incoming, records=incoming.records.take(pa.array(np.arange(len(incoming)))))
        return incoming
    return decode_raw(
        data,
        key=query["key"],
        key_base64=query["key_base64"],
        partition=query["partition"],
        timestamp=query["timestamp"],
    )


def _batch(incoming: IncomingRecords, state: TopicState, sent: Sent, turn: int) -> Batch:
    """The records routed for a state of the topic. Raises ``UnknownPartition``, ``RequestRefused``."""
    assert state.topic_id is not None
    _check_partition(sent, state)
    if not len(incoming):
        nothing, nowhere = BATCH_SCHEMA.empty_table(), np.zeros(0, np.int32)
        stamp = sent.asked.headers.stamp
        return Batch(topic_id=state.topic_id, records=nothing, partitions=nowhere, record_bytes_max=0, stamp=stamp)
    refuse_large(incoming, state.config.integer("max.message.bytes"))
    if state.config.needs_keys:
        refuse_keyless(incoming)
    records, partitions = route(
        incoming,
        partition_count=state.partition_count,
        route_partition=_only_partition(incoming, state.partition_count, turn)
        if sent.partition is None
        else sent.partition,
        sticky=turn % state.partition_count,
        now_ms=sent.arrived_at_ms,
        log_append_time=state.config.choice("message.timestamp.type") == "LogAppendTime",
    )
    return Batch(
        topic_id=state.topic_id,
        records=records,
        partitions=partitions,
        record_bytes_max=int(record_bytes(records).max()),
        partition_count=state.partition_count if sent.partition is None else None,
        stamp=sent.asked.headers.stamp,
        expected_offset=sent.asked.headers.expected_offset,
    )


def _only_partition(incoming: IncomingRecords, partition_count: int, turn: int) -> int | None:
    """The partition of a request's only record, without the price of the way that is made for many."""
    if len(incoming) != 1 or incoming.partitions is not None:
        return None
    key = incoming.records.column("key")[0].as_py()
    return turn % partition_count if key is None else partition_for_key(key, partition_count)


def _check_partition(sent: Sent, state: TopicState) -> None:
    if sent.partition is not None and sent.partition >= state.partition_count:
        raise UnknownPartition(state.topic, sent.partition, state.partition_count)


def _answer(topic: OpenTopic, acknowledged: Acknowledgement, acks: str | None) -> Response:
    is_duplicate = isinstance(acknowledged, Duplicate)
    places = acknowledged.places if isinstance(acknowledged, Duplicate) else acknowledged
    if acks == "0":
        return _json({"topic": topic.name}, 202, topic)
    partitions = [
        {
            "partition": place.partition,
            "base_offset": place.base_offset,
            "last_offset": place.base_offset + place.count - 1,
            "count": place.count,
        }
        for place in places
    ]
    return _json({"topic": topic.name, "partitions": partitions, "duplicate": is_duplicate}, 200, topic)


def _json(members: object, status: int, topic: OpenTopic) -> Response:
    headers = {PARTITION_COUNT_HEADER: str(topic.state.partition_count)}
    return Response(_encode(members), status, headers, media_type=JSON)
