"""``POST /v1/records``: records of several topics and offsets of groups, all or nothing, in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header
from pydantic import Field
from starlette.requests import Request

from gateway.access.needs import Need, needs
from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_body import check_utf8, decode_json, object_members
from gateway.codec.json_structure import elements, elements_exceed
from gateway.codec.media_type import JSON, content_type
from gateway.engine.open_topic import OpenTopic
from gateway.engine.single_journal_append import RangesByTopic
from gateway.gateway import check_member, engine_of, gateway_of, owner_of, request_memory, require
from gateway.http import fields
from gateway.http.body import request_body
from gateway.http.disconnect import check_connected_before_body
from gateway.http.json_request import parse_model
from gateway.http.producer_headers import ProducerHeaders
from gateway.openapi.problems import BODY_ERRORS, problems
from gateway.openapi.schemas import NEW_RECORD_EXAMPLE, RecordToDecode, schema_of
from gateway.quotas.limits import PRODUCE_BYTES
from gateway.quotas.spending import spends
from gateway.routes import quota_charges
from gateway.routes.batch import CodecWork, RoutedRecords, Routing, route_records
from gateway.routes.group_offsets import OFFSET_ERRORS
from gateway.routes.groups import MEMBER_ERRORS
from gateway.routes.transactions import AppendedTopic, Committed, GroupOffsets, appended_topics
from gateway.routes.typed_route import TypedRoute
from log_format import limits
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.topic_name import is_topic_name
from log_format.transactions.row import Place
from log_format.transactions.staged_offsets import StagedOffsets
from log_format.transactions.staged_records import StagedRecords

router = APIRouter(route_class=TypedRoute, tags=["transactions"])

GROUPS_MAX: Final = 100
"""Most groups whose offsets one request may commit."""
_WHITESPACE: Final = b" \t\r\n"


class TopicRecords(fields.Body):
    """The records of one topic."""

    topic: fields.TopicName
    records: Annotated[list[RecordToDecode], fields.ErrorMessage("must be a list of records")]


class AtOnce(fields.Body, example={"topics": [{"topic": "flights", "records": [NEW_RECORD_EXAMPLE]}]}):
    """Records of topics, and offsets of groups."""

    topics: Annotated[list[TopicRecords], Field(max_length=limits.TRANSACTION_REQUESTS_MAX)]
    group_offsets: Annotated[Annotated[list[GroupOffsets], Field(max_length=GROUPS_MAX)] | None, fields.NotNull()] = (
        None
    )


class CommittedAtOnce(Committed):
    """Every record is visible. `duplicate`: an earlier request with this sequence number committed them."""

    duplicate: bool


@router.post(
    "/v1/records",
    responses=problems(
        ErrorCode.INVALID_RECORD,
        ErrorCode.RECORD_TOO_LARGE,
        ErrorCode.UNKNOWN_PRODUCER,
        ErrorCode.FENCED_PRODUCER,
        ErrorCode.SEQUENCE_OUT_OF_ORDER,
        *MEMBER_ERRORS,
        *OFFSET_ERRORS,
        *BODY_ERRORS,
    ),
    openapi_extra={"requestBody": {"required": True, "content": {JSON: {"schema": schema_of(AtOnce)}}}},
)
@needs(Need("Write", "topic"), Need("Read", "group"), Need("Read", "topic"))
@spends(PRODUCE_BYTES)
async def append_at_once(request: Request, headers: Annotated[ProducerHeaders, Header()]) -> CommittedAtOnce:
    """Append to several topics and commit offsets of groups, all or nothing. A repeat gets the first answer."""
    gateway, engine = gateway_of(request), engine_of(request)
    await engine.check_producer(headers.stamp, owner_of(request))
    await check_connected_before_body(request.scope)
    async with request_body(request, gateway.body_limits, request_memory(request), pool=gateway.codec_pool) as body:
        content_type(body.content_type, (JSON,), default=None if body.data else JSON)
        topics, offsets = await asyncio.get_running_loop().run_in_executor(gateway.codec_pool, _parse, body.data)
        require(request, "Write", "topic", *(name for name, _ in topics))
        for one in offsets:
            require(request, "Read", "group", one.group)
            require(request, "Read", "topic", *(entry.topic for entry in one.offsets))
            await check_member(request, one.group, one.member_id)
        parts: list[tuple[OpenTopic, RoutedRecords]] = []
        for index, (name, text) in enumerate(topics):
            if not is_topic_name(name):
                raise UnknownTopic(name[: limits.TOPIC_NAME_CHARACTERS_MAX])
            codec = CodecWork.of(text, gateway.codec_pool, is_json=True)
            arrived_at_ms = gateway.clock.now_ms()
            topic = await engine.open_topic(name)
            incoming = await codec.do(partial(_decode, text, f"/topics/{index}"))
            await quota_charges.charge_produced(request, incoming, codec)
            routing = Routing(partition=None, turn=topic.next_sticky_number(), arrived_at_ms=arrived_at_ms)
            part = await route_records(topic, incoming, routing, codec, engine)
            if part.batch is not None:
                body.reserve_more(part.batch.nbytes)
                parts.append((topic, part))
        # A request with a sequence number, offsets or delayed records is decided in the transactions' table.
        at_once = [(topic, one.batch) for topic, one in parts if one.batch is not None and one.deliver_at is None]
        if parts and len(at_once) == len(parts) and headers.stamp is None and not offsets:
            places = await engine.single_journal_append.append(at_once)
            if places is not None:
                return {"state": "committed", "topics": _appended_topics(places), "duplicate": False}
        records = [
            StagedRecords(
                topic=topic.name,
                topic_id=one.batch.topic_id,
                records=one.batch.records,
                partitions=one.batch.partitions,
                deliver_at=one.deliver_at,
            )
            for topic, one in parts
            if one.batch is not None
        ]
        done = await engine.one_request.commit(records, offsets, headers.stamp)
    return {"state": "committed", "topics": appended_topics(done.row.places), "duplicate": done.is_duplicate}


def _appended_topics(places: RangesByTopic) -> list[AppendedTopic]:
    return appended_topics(
        [
            Place(topic, place.partition, place.base_offset, place.count)
            for topic, of_topic in places.items()
            for place in of_topic
        ]
    )


def _parse(data: bytes) -> tuple[list[tuple[str, bytes]], list[StagedOffsets]]:
    """Return each topic with the text of its records, as a produce body, and the offsets. Raise ``RequestRefused``."""
    without_records, texts = _split_records(data)
    body = parse_model(AtOnce, without_records)
    offsets = [group.staged() for group in body.group_offsets or ()]
    return list(zip([entry.topic for entry in body.topics], texts, strict=True)), offsets


def _split_records(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the body with empty lists of records, and the text of each list as a produce body. The body is never parsed as a
    whole.

    Numbers keep the form in which they were sent. Raises ``RequestRefused``.
    """
    check_utf8(data)
    members = object_members(data)
    topics = members.get("topics", b"")
    if topics[:1] != b"[" or elements_exceed(topics, limits.TRANSACTION_REQUESTS_MAX):
        return data, []  # the model refuses it
    entries, texts = [], []
    for index, (_, entry) in enumerate(elements(topics, 1, 0)):
        if entry.lstrip(_WHITESPACE)[:1] != b"{":
            entries.append(b"null")
            continue
        named = object_members(entry, f"/topics/{index}")
        records = named.get("records", b"")
        if records[:1] == b"[":
            texts.append(b'{"records":%b}' % records)
            named["records"] = b"[]"
        entries.append(_object(named))
    return _object(members | {"topics": b"[%b]" % b",".join(entries)}), texts


def _object(members: Mapping[str, bytes]) -> bytes:
    """Return a JSON object of members that are already encoded."""
    return b"{%b}" % b",".join(b"%b:%b" % (msgspec.json.encode(name), text) for name, text in members.items())


def _decode(text: bytes, where: str) -> IncomingRecords:
    """Decode the records of a topic; errors, also later ones, name places within the whole body."""
    try:
        incoming = decode_json(text)
    except RequestRefused as refusal:
        errors: list[dict[str, Any]] = refusal.fields.get("errors", [])
        for error in errors:
            if error["where"].startswith("/"):
                refusal.detail = refusal.detail.replace(f" {error['where']}:", f" {where}{error['where']}:", 1)
                error["where"] = where + error["where"]
        raise
    return incoming.within(where)
