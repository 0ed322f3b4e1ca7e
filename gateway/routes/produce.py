"""Produce: a request's records, read, decoded, routed, submitted, committed, answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from gateway.codec.body_records import decode_body
from gateway.codec.media_type import JSON, OCTET_STREAM, TEXT_PLAIN, content_type
from gateway.engine.bounds import SEQUENCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.writer import Acknowledgement
from gateway.gateway import gateway_of
from gateway.http.body import has_body, request_body
from gateway.http.direct_route import DirectRoute
from gateway.http.parameters import path_partition, path_topic
from gateway.http.producer_headers import ProducerHeaders, producer_headers
from gateway.log_engine import LogEngine
from gateway.routes.batch import CodecWork, Routing, routed
from gateway.routes.produce_operation import (
    BATCH_QUERY,
    PARTITION_COUNT_HEADER,
    PRODUCE,
    PRODUCE_TO_PARTITION,
    RAW_QUERY,
)
from log_format.clock import Clock
from log_format.errors import ErrorCode, TidelogError, TopicReplaced
from log_format.topic.append import Batch
from log_format.topic.appended import Duplicate

router = APIRouter(route_class=DirectRoute)

_COMPRESSION_RATIO: Final = 4
"""What a compressed body is taken to become, until it is there."""
_encode: Final = msgspec.json.Encoder().encode


@router.post("/v1/topics/{topic}/records", **PRODUCE)
async def produce(request: Request) -> Response:
    """Append records of a topic."""
    return await _produce(request, None)


@router.post("/v1/topics/{topic}/partitions/{partition}/records", **PRODUCE_TO_PARTITION)
async def produce_to_partition(request: Request) -> Response:
    """Append records of a partition; those that name another one go to this one all the same."""
    return await _produce(request, path_partition(request))


async def _produce(request: Request, partition: int | None) -> Response:
    """Parse, read, decode, route, submit, commit, answer; from routing on once more where ``_Tries`` says so."""
    gateway = gateway_of(request)
    engine, clock, bytes_max = gateway.engine, gateway.clock, gateway.settings.request_bytes_max
    asked = _parsed(request, partition)
    if asked.headers.transaction_id is None:
        await engine.check_producer(asked.headers.stamp)
    with await engine.turn_of(_length(request, bytes_max)):
        async with request_body(request, gateway.body_limits, gateway.request_memory, pool=gateway.codec_pool) as body:
            codec, arrived_at_ms = CodecWork(len(body.data), gateway.codec_pool), clock.now_ms()
            topic = await engine.open_topic(asked.topic, partition)
            incoming = await codec.do(lambda: decode_body(asked.kind, body.data, bytes_max, asked.query))
            routing = Routing(
                partition=partition, turn=topic.next_in_turn(), arrived_at_ms=arrived_at_ms, headers=asked.headers
            )
            tries = _Tries(clock)
            while True:
                batch = await routed(topic, incoming, routing, codec, clock)
                if asked.headers.transaction_id is not None:
                    return await _staged(engine, topic, batch, asked.headers)
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
    """What a request says before its body: the topic, the body's kind, parameters, what the headers ask for."""

    topic: str
    kind: str
    query: Mapping[str, Any]
    headers: ProducerHeaders

    @property
    def waits(self) -> bool:
        """Whether it is answered once its records are stored."""
        return bool(self.query["acks"] != "0")


def _parsed(request: Request, partition: int | None) -> _Asked:
    """Raises ``RequestRefused``."""
    topic = path_topic(request)
    header = request.headers.get("content-type")
    kind = content_type(header, default=JSON if header is None and not has_body(request) else None)
    query = (RAW_QUERY if kind in (OCTET_STREAM, TEXT_PLAIN) else BATCH_QUERY).parse(request)
    return _Asked(topic, kind, query, producer_headers(request, partition=partition, acks=query["acks"]))


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


def _accepted(topic: OpenTopic) -> Response:
    return _json({"topic": topic.name}, 202, topic)


def _answer(topic: OpenTopic, acknowledged: Acknowledgement) -> Response:
    is_duplicate = isinstance(acknowledged, Duplicate)
    places = acknowledged.places if isinstance(acknowledged, Duplicate) else acknowledged
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
