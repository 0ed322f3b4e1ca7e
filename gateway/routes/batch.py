"""Makes a batch of a topic from a body's bytes: decode, then route for the topic as it is.

Large bodies are decoded in the codec pool. Small ones are decoded on the event loop, since changing threads would cost more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import numpy as np

from gateway.codec.incoming import IncomingRecords
from gateway.codec.record_key import refuse_keyless
from gateway.codec.record_size import refuse_large
from gateway.codec.route import route
from gateway.engine.open_topic import OpenTopic
from log_format.clock import Clock
from log_format.errors import ErrorCode, RequestRefused, UnknownPartition
from log_format.records.partitioner import partition_for_key
from log_format.records.schema import BATCH_SCHEMA
from log_format.records.size import largest_record_bytes
from log_format.topic.append import Batch
from log_format.topic.appended import Duplicate
from log_format.topic.producers import ProducerStamp, SequenceCheck
from log_format.topic.state import TopicState

INLINE_BYTES_MAX: Final = 64 * 1024
"""What is longer is decoded and routed in a thread."""
_BY_STATE: Final = (ErrorCode.INVALID_RECORD, ErrorCode.RECORD_TOO_LARGE, ErrorCode.UNKNOWN_PARTITION)
"""Refusals that an older state of the topic may be to blame for."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CodecWork:
    """Where a body of this length is worked on."""

    size_bytes: int
    pool: Executor

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` gives."""
        if self.size_bytes <= INLINE_BYTES_MAX:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What decides where records go: the partition that the route names, the request's number in turn, when it came.

    The producer's stamp and the expected offset go along with them.
    """

    partition: int | None
    turn: int
    arrived_at_ms: int
    stamp: ProducerStamp | None = None
    expected_offset: int | None = None


async def routed(
    topic: OpenTopic, incoming: IncomingRecords, routing: Routing, codec: CodecWork, clock: Clock
) -> Batch | None:
    """The records as a batch of the topic as it is known or, before refusing, as it is now; None: there is nothing to append.

    A repeat of a stored request goes on to the commit, which knows it again: settings that came behind it refuse it nothing.

    Raises ``RequestRefused``, ``UnknownPartition``, and as ``OpenTopic.fresh``.
    """
    state, is_stored = topic.existing(), False
    while True:
        try:
            work = partial(batch_of, incoming, state, routing, is_stored=is_stored)
            return await codec.do(work)
        except RequestRefused as refusal:
            if refusal.code not in _BY_STATE or is_stored:
                raise
            await topic.fresh(clock.monotonic_ms())
            newer = topic.existing()
            is_stored = _is_stored(newer, routing.stamp, clock.now_ms())
            if not is_stored and (newer.partition_count, newer.config) == (state.partition_count, state.config):
                raise
            state = newer


def _is_stored(state: TopicState, stamp: ProducerStamp | None, now_ms: int) -> bool:
    if stamp is None:
        return False
    check = SequenceCheck(state.producers, now_ms, state.config.integer("producer.id.expiration.ms"))
    return isinstance(check.judge(stamp), Duplicate)


def batch_of(
    incoming: IncomingRecords, state: TopicState, routing: Routing, *, is_stored: bool = False
) -> Batch | None:
    """The records routed for a state of the topic; None: there is nothing to append.

    ``is_stored``: by an earlier try, so the topic's settings are not asked. Raises ``RequestRefused``.
    """
    assert state.topic_id is not None
    if routing.partition is not None and routing.partition >= state.partition_count:
        raise UnknownPartition(state.topic, routing.partition, state.partition_count)
    if not len(incoming):
        # The sequence is used up all the same.
        return None if routing.stamp is None else _nothing(state.topic_id, routing.stamp)
    largest_bytes = largest_record_bytes(incoming.records)
    if not is_stored:
        if largest_bytes > state.config.integer("max.message.bytes"):
            refuse_large(incoming, state.config.integer("max.message.bytes"))
        if state.config.needs_keys:
            refuse_keyless(incoming)
    records, partitions = route(
        incoming,
        partition_count=state.partition_count,
        route_partition=_only_partition(incoming, state.partition_count, routing.turn)
        if routing.partition is None
        else routing.partition,
        sticky=routing.turn % state.partition_count,
        now_ms=routing.arrived_at_ms,
        log_append_time=state.config.choice("message.timestamp.type") == "LogAppendTime",
    )
    return Batch(
        topic_id=state.topic_id,
        records=records,
        partitions=partitions,
        record_bytes_max=largest_bytes,
        partition_count=state.partition_count if routing.partition is None else None,
        stamp=routing.stamp,
        expected_offset=routing.expected_offset,
    )


def _nothing(topic_id: str, stamp: ProducerStamp) -> Batch:
    nothing, nowhere = BATCH_SCHEMA.empty_table(), np.zeros(0, np.int32)
    return Batch(topic_id=topic_id, records=nothing, partitions=nowhere, record_bytes_max=0, stamp=stamp)


def _only_partition(incoming: IncomingRecords, partition_count: int, turn: int) -> int | None:
    """The partition of a request's only record, without the price of the way that is made for many."""
    if len(incoming) != 1 or incoming.partitions is not None:
        return None
    key = incoming.records.column("key")[0].as_py()
    return turn % partition_count if key is None else partition_for_key(key, partition_count)
