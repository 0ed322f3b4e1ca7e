"""DescribeShareGroupOffsets: up to where a share group has settled each partition, and how many records are left.

Source: KIP-932, KIP-1226 (lag).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import Answer, Calls, KafkaCall, Later, Served
from gateway.kafka.calls.coordinator import check_group, group_error
from gateway.kafka.errors import kafka_error
from gateway.queues.describing import PartitionDescription
from log_format.errors import TidelogError

DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
_NOTHING: Final = -1


async def describe(call: KafkaCall, request: Any) -> Answer | Later:
    """Of the topics that are named, or of all that the caller may see."""
    return Later(_described(call, request))


async def _described(call: KafkaCall, request: Any) -> Answer:
    return call.answer(groups=[await _group(call, one.group_id, one.topics) for one in request.groups])


async def _group(call: KafkaCall, name: str, topics: Any) -> dict[str, Any]:
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
    topic_id = None if topic is None or topic.state.topic_id is None else UUID(topic.state.topic_id)
    return {
        "topic_name": name,
        "topic_id": None if error else topic_id,
        "partitions": [_partition(number, found.get(number), error) for number in wanted],
    }


def _partition(number: int, found: PartitionDescription | None, error: KafkaError) -> dict[str, Any]:
    """A partition of which nothing is known is told with -1, as by a broker."""
    return {
        "partition_index": number,
        "start_offset": _NOTHING if found is None else found.start_offset,
        "leader_epoch": 0,
        "lag": _NOTHING if found is None else found.lag,
        "error_code": error,
        "error_message": None,
    }


CALLS: Final[Calls] = {DESCRIBE_SHARE_GROUP_OFFSETS: Served(0, 1, describe)}
