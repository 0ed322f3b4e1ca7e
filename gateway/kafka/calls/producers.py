"""DescribeProducers: Kafka clients' idempotent producers that a partition remembers. Producers of transactions are not included.

Source: KIP-664.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.call import Answer, KafkaCall
from gateway.kafka.errors import kafka_error
from log_format.errors import TidelogError
from log_format.topic.numbered_producers import SEQUENCES
from log_format.topic.producer_id import parse_number
from log_format.topic.state import TopicState

_NONE: Final = -1


async def describe_producers(call: KafkaCall, request: Any) -> Answer:
    """Answer with the producers of each partition that the caller may read."""
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:  # a partition that is named twice is told once
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics = []
    for name, indexes in wanted.items():
        state, error = None, KafkaError.none
        try:
            call.require("Read", "topic", name)
            state = (await call.engine.topics.fresh(name, call.engine.clock.monotonic_ms())).require_state()
        except TidelogError as refusal:
            error = kafka_error(refusal)
        active = _active_producers(indexes, state) if state is not None else {}
        partitions = [_partition(index, state, error, active.get(index, ())) for index in indexes]
        topics.append({"name": name, "partitions": partitions})
    return call.answer(topics=topics)


def _partition(
    index: int, state: TopicState | None, error: KafkaError, producers: Sequence[dict[str, int]]
) -> dict[str, Any]:
    if state is not None and not 0 <= index < state.partition_count:
        error = KafkaError.unknown_topic_or_partition
    return {"partition_index": index, "error_code": error, "error_message": None, "active_producers": producers}


def _active_producers(wanted: Collection[int], state: TopicState) -> Mapping[int, Sequence[dict[str, int]]]:
    """Return the producers of each wanted partition. A topic may have many of both, so each producer is looked at once."""
    found: dict[int, list[dict[str, int]]] = {}
    for producer_id, producer in state.producers.numbered.by_id.items():
        for index, lane in producer.lanes.items():
            if index in wanted:
                found.setdefault(index, []).append(
                    {
                        "producer_id": parse_number(producer_id),
                        "producer_epoch": lane.epoch,
                        "last_sequence": (lane.next_sequence - 1) % SEQUENCES,
                        "last_timestamp": producer.last_used_ms,
                        "coordinator_epoch": _NONE,
                        "current_txn_start_offset": _NONE,
                    }
                )
    return found
