"""DescribeProducers: Kafka clients' idempotent producers that a partition remembers. Producers of transactions are not included.

Source: KIP-664.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import Answer, KafkaCall
from gateway.kafka.errors import kafka_error
from log_format.errors import TidelogError
from log_format.topic.numbered_producers import SEQUENCES
from log_format.topic.producer_id import number_of
from log_format.topic.state import TopicState

_NONE: Final = -1


async def describe_producers(call: KafkaCall, request: Any) -> Answer:
    """Answer with the producers of each partition that the caller may read."""
    topics = []
    for topic in request.topics:
        state, error = None, KafkaError.none
        try:
            call.require("Read", "topic", topic.name)
            state = (await call.engine.topics.fresh(topic.name, call.engine.clock.monotonic_ms())).existing()
        except TidelogError as refusal:
            error = kafka_error(refusal)
        partitions = [_partition(index, state, error) for index in topic.partition_indexes]
        topics.append({"name": topic.name, "partitions": partitions})
    return call.answer(topics=topics)


def _partition(index: int, state: TopicState | None, error: KafkaError) -> dict[str, Any]:
    if state is not None and not 0 <= index < state.partition_count:
        error = KafkaError.unknown_topic_or_partition
    producers = _active(index, state) if state is not None and error is KafkaError.none else []
    return {"partition_index": index, "error_code": error, "error_message": None, "active_producers": producers}


def _active(index: int, state: TopicState) -> list[dict[str, int]]:
    return [
        {
            "producer_id": number_of(producer_id),
            "producer_epoch": lane.epoch,
            "last_sequence": (lane.next_sequence - 1) % SEQUENCES,
            "last_timestamp": producer.last_used_ms,
            "coordinator_epoch": _NONE,
            "current_txn_start_offset": _NONE,
        }
        for producer_id, producer in state.producers.numbered.by_id.items()
        if (lane := producer.lanes.get(index)) is not None
    ]
