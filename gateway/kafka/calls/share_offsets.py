"""Describe-, Alter- and DeleteShareGroupOffsets: a share group's start offset and lag in each partition.

Offsets are altered and deleted only while the group has no member and none of its records is locked. After an alteration, records
are delivered again from the new offset on. After a deletion the topic is no longer read, until a member subscribes to it again.

Source: KIP-932, KIP-1226 (lag).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.open_topic import OpenTopic
from gateway.kafka.administration import Right, administer
from gateway.kafka.call import Answer, KafkaCall, answer_concurrently
from gateway.kafka.calls.coordinator import check_group, group_error, map_names
from gateway.kafka.calls.share_groups import check_dead_letters
from gateway.kafka.errors import kafka_error
from gateway.queues.describing import PartitionDescription
from log_format.access.acls import Operation
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.topic.config import check_topic_name

_UNKNOWN: Final = -1


@answer_concurrently
async def describe(call: KafkaCall, request: Any) -> Answer:
    """Answer with the offsets of the named topics, or of all topics that the caller may describe."""
    return call.answer(groups=await map_names(request.groups, partial(_group, call)))


async def _group(call: KafkaCall, asked: Any) -> dict[str, Any]:
    name, topics = asked.group_id, asked.topics
    nothing = {"group_id": name, "topics": (), "error_code": KafkaError.none, "error_message": None}
    try:
        check_group(call, name, "Describe")
        found = await call.engine.queues.describe(name, lambda topic: call.allows("Describe", "topic", topic))
    except TidelogError as error:
        return nothing | {"error_code": group_error(error), "error_message": error.detail}
    by_topic: dict[str, dict[int, PartitionDescription]] = {}
    for one in found.partitions:
        by_topic.setdefault(one.topic, {})[one.partition] = one
    if topics is None:
        return nothing | {"topics": [_topic(call, topic, some, some) for topic, some in by_topic.items()]}
    return nothing | {
        "topics": [
            _topic(call, one.topic_name, by_topic.get(one.topic_name, {}), one.partitions, named=True) for one in topics
        ]
    }


def _topic(
    call: KafkaCall,
    name: str,
    found: dict[int, PartitionDescription],
    wanted: Iterable[int],
    *,
    named: bool = False,
) -> dict[str, Any]:
    error = KafkaError.none
    if named:
        try:
            call.require("Describe", "topic", name)
        except TidelogError as problem:
            error = kafka_error(problem)
    topic = call.engine.topics.known(name)
    return {
        "topic_name": name,
        "topic_id": None if error else _id(call, topic),
        "partitions": [_partition(number, found.get(number), error) for number in wanted],
    }


def _partition(number: int, found: PartitionDescription | None, error: KafkaError) -> dict[str, Any]:
    """Return the answer fields of a partition; as with a broker, -1 stands for values that are not known."""
    return {
        "partition_index": number,
        "start_offset": _UNKNOWN if found is None else found.start_offset,
        "leader_epoch": 0,
        "lag": _UNKNOWN if found is None else found.lag,
        "error_code": error,
        "error_message": None,
    }


@answer_concurrently
async def alter(call: KafkaCall, request: Any) -> Answer:
    """Move the group to these offsets. A topic that the group does not read yet needs the rights for subscribing to it."""
    responses: list[dict[str, Any]] = []
    starts: dict[str, dict[int, int]] = {}
    try:
        _check_empty(call, request.group_id, "Read")
        for one in request.topics:
            found, error = await _find_topic(call, one.topic_name)
            partitions = []
            for part in one.partitions:
                code = error or _partition_error(found, part.partition_index, part.start_offset)
                partitions.append({"partition_index": part.partition_index, "error_code": code, "error_message": None})
                if not code:
                    starts.setdefault(one.topic_name, {})[part.partition_index] = part.start_offset
            responses.append({"topic_name": one.topic_name, "topic_id": _id(call, found), "partitions": partitions})
        settings = await call.engine.queues.settings(request.group_id)
        if adds := not starts.keys() <= set(settings.topics):
            check_dead_letters(call, settings)
        await _move(call, request.group_id, "Alter" if adds else "Read", starts)
    except TidelogError as problem:
        return call.answer(error_code=group_error(problem), error_message=problem.detail, responses=())
    return call.answer(error_code=KafkaError.none, error_message=None, responses=responses)


@answer_concurrently
async def delete(call: KafkaCall, request: Any) -> Answer:
    """Delete the group's progress in these topics, which it then no longer reads."""
    responses: list[dict[str, Any]] = []
    try:
        _check_empty(call, request.group_id, "Delete")
        read = (await call.engine.queues.settings(request.group_id)).topics
        dropped = set()
        for one in request.topics:
            found, error = await _find_topic(call, one.topic_name)
            code = error or (KafkaError.none if one.topic_name in read else KafkaError.unknown_topic_or_partition)
            responses.append(
                {"topic_name": one.topic_name, "topic_id": _id(call, found), "error_code": code, "error_message": None}
            )
            if not code:
                dropped.add(one.topic_name)
        await _move(call, request.group_id, "Delete", {}, frozenset(dropped))
    except TidelogError as problem:
        return call.answer(error_code=group_error(problem), error_message=problem.detail, responses=())
    return call.answer(error_code=KafkaError.none, error_message=None, responses=responses)


def _check_empty(call: KafkaCall, name: str, operation: Operation) -> None:
    check_group(call, name, operation)
    if call.shares.members.group(name, call.engine.clock.monotonic_ms()) is not None:
        raise RequestRefused(f"Share group {name!r} has members.", code=ErrorCode.GROUP_NOT_EMPTY)


async def _find_topic(call: KafkaCall, name: str) -> tuple[OpenTopic | None, KafkaError]:
    """Return the topic as it is now, or why its offsets can't be altered. Raise ``BackOff``."""
    try:
        call.require("Read", "topic", name)
        check_topic_name(name)
        topic = await call.engine.topics.fresh(name, call.engine.clock.monotonic_ms())
        topic.require_state()
    except RequestRefused as problem:
        return None, kafka_error(problem)
    return topic, KafkaError.none


def _partition_error(topic: OpenTopic | None, partition: int, offset: int) -> KafkaError:
    assert topic is not None
    if not 0 <= partition < topic.state.partition_count:
        return KafkaError.unknown_topic_or_partition
    return KafkaError.invalid_request if offset < 0 else KafkaError.none


def _id(call: KafkaCall, topic: OpenTopic | None) -> UUID | None:
    return None if topic is None else call.known_topics.remember_id(topic.state)


async def _move(
    call: KafkaCall,
    name: str,
    operation: Operation,
    starts: dict[str, dict[int, int]],
    dropped: frozenset[str] = frozenset(),
) -> None:
    """Move the queue's start offsets and drop topics, and audit it. Raise as ``Queues.move_starts``, also if there is nothing
    to move."""
    queues = call.engine.queues
    if starts or dropped:
        await administer(call, Right(operation, "group", name), lambda: queues.move_starts(name, starts, dropped))
    else:
        await queues.settings(name)
