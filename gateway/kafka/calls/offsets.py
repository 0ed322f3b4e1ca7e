"""ListOffsets: the first and the end offset of a partition, and the first offset at or after a time. OffsetForLeaderEpoch.

No leaders exist whose logs could differ: the only epoch is 0, and it ends at the high watermark. Source: KIP-79, KIP-101,
KIP-734.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.answer_memory import reserve_for_store
from gateway.engine.open_topic import OpenTopic
from gateway.engine.read_records import ReadLimits
from gateway.engine.start_resolver import TopicsByName
from gateway.kafka.call import Answer, KafkaCall, answer_concurrently, yield_to_loop
from gateway.kafka.errors import kafka_error
from gateway.kafka.topic_lookup import look_up_topics
from log_format.errors import TidelogError
from log_format.records.schema import TIMESTAMP_MS_MAX
from log_format.topic.state import TopicState

LATEST: Final = -1
EARLIEST: Final = -2
LARGEST_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LEADER_EPOCH: Final = 0
NONE: Final = -1


@answer_concurrently
async def list_offsets(call: KafkaCall, request: Any) -> Answer:
    """Answer with an offset for each partition and time."""
    topics = await _look_up(call, [topic.name for topic in request.topics])
    found, number = [], 0
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(await _offset(call, topic.name, topics[topic.name], partition))
            number += 1
            await yield_to_loop(number)
        found.append({"name": topic.name, "partitions": partitions})
    return call.answer(topics=found)


async def _look_up(call: KafkaCall, names: list[str]) -> TopicsByName:
    """Return the topics by name; the state of each is read after the request arrived."""
    return await look_up_topics(call, names, call.engine.clock.monotonic_ms())


async def _offset(call: KafkaCall, name: str, topic: OpenTopic | TidelogError, asked: Any) -> dict[str, Any]:
    found = {"partition_index": asked.partition_index, "error_code": KafkaError.none, "leader_epoch": LEADER_EPOCH}
    try:
        call.require("Describe", "topic", name)
        if isinstance(topic, TidelogError):
            raise topic
        offset, timestamp = await _find_offset(call, topic, asked.partition_index, asked.timestamp)
    except TidelogError as error:
        return found | {"error_code": kafka_error(error), "leader_epoch": -1}
    # A broker does not report an epoch where it found no record.
    return found | {"offset": offset, "timestamp": timestamp, "leader_epoch": LEADER_EPOCH if offset >= 0 else NONE}


async def _find_offset(call: KafkaCall, topic: OpenTopic, partition: int, timestamp: int) -> tuple[int, int]:
    """Return the offset and the record's timestamp; -1 for one that was not asked for or does not exist."""
    state = topic.require_partition(partition)
    log_start, high_watermark = state.log_start(partition), state.high_watermark(partition)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log_start, NONE
    if timestamp == LATEST:
        return high_watermark, NONE
    if timestamp == LARGEST_TIMESTAMP:
        timestamp = _largest_timestamp(state, partition)
    if 0 <= timestamp <= TIMESTAMP_MS_MAX:
        offset = await call.engine.reader.offset_of_timestamp(topic, state, partition, timestamp)
    else:
        offset = None
    return (NONE, NONE) if offset is None else await _record(call, topic, state, partition, offset)


def _largest_timestamp(state: TopicState, partition: int) -> int:
    """Return the largest timestamp of the partition's runs; -1 if there are none. It takes 48 binary searches."""
    low, high, log_start = NONE, TIMESTAMP_MS_MAX, state.log_start(partition)
    while low < high:
        middle = (low + high + 1) // 2
        if state.manifest.find_timestamp(partition, log_start, middle) is None:
            high = middle - 1
        else:
            low = middle
    return low


async def _record(call: KafkaCall, topic: OpenTopic, state: TopicState, partition: int, offset: int) -> tuple[int, int]:
    """Return the offset and the timestamp of the first record at or after the offset."""
    limits = ReadLimits(records_max=1, bytes_max=1)
    with await reserve_for_store(call.answer_memory, 0, is_small=True):
        records = await call.engine.reader.read(topic, state, partition, offset, limits)
    if not records.tables:
        return NONE, NONE
    (table,) = records.tables
    micros: int = table.column("timestamp").chunk(0).view("int64")[0].as_py()
    return table.column("offset")[0].as_py(), micros // 1000


async def offset_for_leader_epoch(call: KafkaCall, request: Any) -> Answer:
    """Answer with the end of epoch 0; -1 for any other epoch."""
    topics = await _look_up(call, [topic.topic for topic in request.topics])
    found, number = [], 0
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(_end(call, topic.topic, topics[topic.topic], partition))
            number += 1
            await yield_to_loop(number)
        found.append({"topic": topic.topic, "partitions": partitions})
    return call.answer(topics=found)


def _end(call: KafkaCall, name: str, topic: OpenTopic | TidelogError, asked: Any) -> dict[str, Any]:
    partition: int = asked.partition
    try:
        call.require("Describe", "topic", name)
        if isinstance(topic, TidelogError):
            raise topic
        end = topic.require_partition(partition).high_watermark(partition)
    except TidelogError as error:
        return {"partition": partition, "error_code": kafka_error(error)}
    is_known = asked.leader_epoch == LEADER_EPOCH
    return {
        "partition": partition,
        "error_code": KafkaError.none,
        "leader_epoch": LEADER_EPOCH if is_known else NONE,
        "end_offset": end if is_known else NONE,
    }
