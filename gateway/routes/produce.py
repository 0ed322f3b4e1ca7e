"""Produce: a request's records are read, decoded, routed, submitted, committed, answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from fastapi import APIRouter, Header, Query
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.codec.body_records import decode_body
from gateway.codec.media_type import JSON, NDJSON, OCTET_STREAM, TEXT_PLAIN, content_type
from gateway.engine.bounds import SEQUENCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.writer import Acknowledgement
from gateway.forwarding.arrival import hop_of
from gateway.gateway import check_transaction, gateway_of, owner_of, request_memory
from gateway.http import fields
from gateway.http.body import Body, has_body, request_body
from gateway.http.disconnect import check_connected_before_body
from gateway.http.json_response import JsonResponse
from gateway.http.parameters import header_text, parameters_refusal
from gateway.http.producer_headers import ConditionalHeaders, ProduceHeaders
from gateway.http.validation import UNKNOWN_PARAMETER
from gateway.log_engine import LogEngine
from gateway.quotas.limits import PRODUCE_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.batch import CodecWork, RoutedRecords, Routing, route_records
from gateway.routes.dead_letters import LettersOfRequest
from gateway.routes.delayed import file_and_append
from gateway.routes.produce_operation import (
    PRODUCE,
    PRODUCE_TO_PARTITION,
    Accepted,
    Produced,
    ProduceQuery,
    ScheduledRecord,
)
from gateway.routes.transactions import AppendedPartition, require_write
from gateway.routes.typed_route import TypedRoute
from log_format.clock import Clock
from log_format.errors import ErrorCode, TidelogError, TopicReplaced
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.topic.append import Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.producers import ProducerStamp

router = APIRouter(route_class=TypedRoute, tags=["produce"])

_COMPRESSION_RATIO: Final = 4
"""Assumed ratio by which a compressed body grows, until its size is known."""
_encode: Final = msgspec.json.Encoder().encode


@router.post("/v1/topics/{topic}/records", **PRODUCE)
@needs(Need("Write", "topic", path="topic"), Need("Write", "transactional_id"))
@spends(PRODUCE_BYTES)
async def produce(
    request: Request,
    topic: fields.TopicPath,
    query: Annotated[ProduceQuery, Query()],
    headers: Annotated[ProduceHeaders, Header()],
) -> JsonResponse:
    """Append records. Without a partition a record goes to that of its key, or without a key to the next one."""
    return await _produce(request, _ProduceParameters(topic, None, query, headers))


@router.post("/v1/topics/{topic}/partitions/{partition}/records", **PRODUCE_TO_PARTITION)
@needs(Need("Write", "topic", path="topic"), Need("Write", "transactional_id"))
@spends(PRODUCE_BYTES)
async def produce_to_partition(
    request: Request,
    topic: fields.TopicPath,
    partition: fields.PartitionPath,
    query: Annotated[ProduceQuery, Query()],
    headers: Annotated[ConditionalHeaders, Header()],
) -> JsonResponse:
    """Append records to one partition, which overrides partitions named in records."""
    return await _produce(request, _ProduceParameters(topic, partition, query, headers, headers.expected_offset))


async def _produce(request: Request, asked: _ProduceParameters) -> JsonResponse:
    """Check, read, open, decode, route, append, answer; from routing on once more if ``_RetryDecision`` allows it."""
    gateway = gateway_of(request)
    engine, clock, bytes_max = gateway.engine, gateway.clock, gateway.settings.request_bytes_max
    kind = asked.kind(request)
    await _check_producer(request, engine, asked.headers)
    with await engine.reserve_body_turn(_length(request, bytes_max)):
        async with request_body(request, gateway.body_limits, request_memory(request), pool=gateway.codec_pool) as body:
            codec = CodecWork.of(body.data, gateway.codec_pool, is_json=kind in (JSON, NDJSON))
            arrived_at_ms = clock.now_ms()
            topic = await engine.open_topic(asked.topic, asked.partition)
            incoming = await codec.do(lambda: decode_body(kind, body.data, bytes_max, asked.of_record))
            await quota_charges.charge_produced(request, incoming, codec)
            routing = asked.routing(topic.next_sticky_number(), arrived_at_ms)
            tries = _RetryDecision(clock)
            letters = LettersOfRequest(request, topic)
            while True:
                records = await route_records(topic, incoming, routing, codec, engine)
                if (other := _forwarded_for_other_topic(request, records.batch)) is not None:
                    tries.check(TopicReplaced.by(topic.name, other))
                    await topic.fresh(clock.monotonic_ms())
                    continue
                if (transaction_id := asked.headers.transaction_id) is not None:
                    return await _stage(engine, topic, records, transaction_id, routing.stamp)
                batch, parts = records.batch, records.split(arrived_at_ms)
                if records.has_letters and batch is not None:
                    batch = await letters.split(batch, tries.deadline_ms)
                if batch is None:
                    return _answer(topic, (), letters=letters) if asked.waits else _accepted_response(topic)
                if parts is None:
                    answer = await _append(topic, asked, batch, body, tries, letters=letters)
                else:
                    answer = await _file_delayed(engine, topic, asked, batch, parts, body=body, tries=tries)
                if answer is not None:
                    return answer
                # A client that disconnected, and may have been answered elsewhere, does not mean a topic that was created since.
                await check_connected_before_body(request.scope)
                await topic.fresh(clock.monotonic_ms())


class _ProduceParameters(NamedTuple):
    """The parameters of a request besides its body."""

    topic: str
    partition: int | None
    query: ProduceQuery
    headers: ProduceHeaders
    expected_offset: int | None = None

    @property
    def of_record(self) -> Mapping[str, Any]:
        """Query parameters that describe the only record of a raw body."""
        return dict(self.query) if self.query.model_fields_set else {}

    def routing(self, turn: int, arrived_at_ms: int) -> Routing:
        """Return what decides the records' partitions."""
        is_staged = self.headers.transaction_id is not None
        return Routing(self.partition, turn, arrived_at_ms, self.headers.stamp, self.expected_offset, is_staged)

    @property
    def waits(self) -> bool:
        """Whether the request is answered only once its records are stored."""
        return self.query.acks != "0"

    def kind(self, request: Request) -> str:
        """Return the body's media type. Raise ``RequestRefused`` if parameters and headers do not fit it, or each other."""
        header = header_text(request, b"content-type")
        kind = content_type(header, default=JSON if header is None and not has_body(request) else None)
        if kind not in (OCTET_STREAM, TEXT_PLAIN) and (names := self.query.model_fields_set - {"acks"}):
            raise parameters_refusal([(name, UNKNOWN_PARAMETER) for name in sorted(names)])
        if not self.waits and self.headers.model_fields_set:
            raise parameters_refusal([(name, "does not go with acks=0") for name in self.headers.given], "Header")
        return kind

    def check_delayed(self, at_once: int) -> None:
        """Raise ``RequestRefused`` if an offset is expected but all records are delayed, so that none is appended immediately."""
        if self.expected_offset is not None and not at_once:
            raise parameters_refusal([("Tidelog-Expected-Offset", "does not go with delayed records alone")], "Header")


def _length(request: Request, bytes_max: int) -> int:
    """Return the estimated length of the body; 0 if it is unknown, or if the body will be refused for it."""
    text = header_text(request, b"content-length") or ""
    length = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if header_text(request, b"content-encoding") is not None:
        return min(length * _COMPRESSION_RATIO, bytes_max)
    return length if length <= bytes_max else 0


def _forwarded_for_other_topic(request: Request, batch: Batch | None) -> str | None:
    """Return the id of the batch's topic, if a gateway forwarded the request for another topic; else None."""
    hop = hop_of(request.scope)
    if hop is None or hop.topic_id is None or batch is None or batch.topic_id == hop.topic_id:
        return None
    return batch.topic_id


class _RetryDecision:
    """Decision whether a refused request is routed and submitted again: if its topic was replaced, or it arrived ahead of its
    sequence."""

    def __init__(self, clock: Clock) -> None:
        self.deadline_ms = clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
        """Monotonic time until which the request waits for the requests before it."""
        self._clock = clock
        self._was_replaced = False

    def check(self, refusal: TidelogError) -> None:
        """Raise the refusal, unless another try may succeed."""
        if isinstance(refusal, TopicReplaced) and not self._was_replaced:
            self._was_replaced = True
            return
        is_ahead = refusal.code is ErrorCode.SEQUENCE_OUT_OF_ORDER and refusal.retryable
        if not is_ahead or self._clock.monotonic_ms() >= self.deadline_ms:
            raise refusal


async def _check_producer(request: Request, engine: LogEngine, headers: ProduceHeaders) -> None:
    """Raise unless the producer, or its transaction, may write."""
    if headers.transaction_id is not None:
        await check_transaction(request, headers.transaction_id)
        await require_write(request, headers.transaction_id)
    elif (stamp := headers.stamp) is not None:
        await engine.check_producer(stamp, owner_of(request))
    if headers.stamp is not None:
        await check_connected_before_body(request.scope)


async def _append(
    topic: OpenTopic,
    asked: _ProduceParameters,
    batch: Batch,
    body: Body,
    tries: _RetryDecision,
    *,
    letters: LettersOfRequest,
) -> JsonResponse | None:
    """Submit the batch and wait for the commit; return None if the records have to be routed again."""
    pending = await topic.submit_in_order(batch, body.transfer_memory(batch.nbytes), tries.deadline_ms)
    if not asked.waits:
        return _accepted_response(topic)
    try:
        return _answer(topic, await topic.appending.await_acknowledgement(pending), letters=letters)
    except TidelogError as refusal:
        tries.check(refusal)
        return None


async def _file_delayed(
    engine: LogEngine,
    topic: OpenTopic,
    asked: _ProduceParameters,
    batch: Batch,
    parts: tuple[DelayedRecords, DelayedRecords],
    *,
    body: Body,
    tries: _RetryDecision,
) -> JsonResponse | None:
    """File the delayed records and append the others; return None if the records have to be routed again."""
    asked.check_delayed(len(parts[0]) - len(parts[1]))
    try:
        delayed = await file_and_append(
            engine, topic, batch, parts, hand_over=body.transfer_memory, deadline_ms=tries.deadline_ms
        )
    except TopicReplaced as refusal:
        tries.check(refusal)
        return None
    return _answer(topic, delayed.acknowledged, delayed.scheduled) if asked.waits else _accepted_response(topic)


async def _stage(
    engine: LogEngine, topic: OpenTopic, records: RoutedRecords, transaction_id: str, stamp: ProducerStamp | None
) -> JsonResponse:
    """Stage the records for the transaction."""
    batch = records.batch
    count = 0 if batch is None else batch.record_count
    is_new = True
    if batch is None:
        await engine.transactions.require_open(transaction_id)
    else:
        is_new = await engine.transactions.stage(
            transaction_id, topic.name, batch, stamp, deliver_at=records.deliver_at
        )
    staged: Accepted = {"staged": count} if is_new else {"staged": count, "duplicate": True}
    return _json(staged, 202, topic)


def _accepted_response(topic: OpenTopic) -> JsonResponse:
    accepted: Accepted = {"topic": topic.name}
    return _json(accepted, 202, topic)


def _answer(
    topic: OpenTopic,
    acknowledged: Acknowledgement,
    scheduled: list[ScheduledRecord] | None = None,
    letters: LettersOfRequest | None = None,
) -> JsonResponse:
    is_duplicate = isinstance(acknowledged, Duplicate)
    offset_ranges = acknowledged.offset_ranges if isinstance(acknowledged, Duplicate) else acknowledged
    partitions: list[AppendedPartition] = [
        {
            "partition": place.partition,
            "base_offset": place.base_offset,
            "last_offset": place.base_offset + place.count - 1,
            "count": place.count,
        }
        for place in offset_ranges
    ]
    produced: Produced = {"topic": topic.name, "partitions": partitions, "duplicate": is_duplicate}
    if scheduled is not None:
        produced["scheduled"] = scheduled
    if letters is not None and letters.put:
        produced["dead_letters"] = letters.put
    return _json(produced, 200, topic)


def _json(members: Produced | Accepted, status: int, topic: OpenTopic) -> JsonResponse:
    headers = ((b"tidelog-partition-count", b"%d" % topic.log.state.partition_count),)
    return JsonResponse(_encode(members), status, headers)
