"""Produce: batches of several topics and partitions, each with its own answer.

1. The batches of one connection are submitted in the order in which they came. Their commits are awaited beside later requests.
2. Each partition's batch stands or falls alone. Those of one topic, and of topics at one journal, share commits as HTTP's do.
3. A batch is one of magic 2, as from every client since 2017. Its records are checked before any is submitted.
4. The producer's bytes stay beside the records in the tail where they are worth it: consumers there get them as they are.
5. With acks=0 there is no answer. A batch that can't be taken closes the connection, as a broker does.

Source: KIP-98 (batches), KIP-516 (topic ids); Kafka's ``LogValidator``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.appending import PendingBatch
from gateway.engine.bounds import SEQUENCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.kafka.bounds import HEAD_BYTES, ORIGINALS_PART
from gateway.kafka.call import Answer, KafkaCall, Later, Refused, let_others_in
from gateway.kafka.calls.produce_answers import NO_TIME, lone_answer, partition_answer
from gateway.kafka.calls.refused_records import RefusedRecords, refused_records
from gateway.kafka.calls.stamps import (
    NO_OFFSET,
    NOTHING_LOST,
    PLAIN,
    Stamped,
    produce_error,
    staged_offset,
    staging_error,
    stamp_of,
)
from gateway.kafka.errors import kafka_error
from gateway.kafka.wire.batch_head import CODEC_MASK, CONTROL, BatchHead, OldMagic, WrongChecksum, read_head
from gateway.kafka.wire.compression import TooLarge
from gateway.kafka.wire.decoding import UnknownCodec, decoded, decoded_together
from gateway.kafka.wire.few_records import NO_TIMESTAMP
from gateway.kafka.wire.few_records import RECORDS_MAX as FEW_RECORDS
from gateway.kafka.wire.reading import Malformed
from gateway.quotas.limits import PRODUCE_BYTES
from gateway.transactions.of_kafka import Producing
from log_format.errors import TidelogError
from log_format.records.schema import BATCH_SCHEMA
from log_format.records.single import SingleRecord
from log_format.records.size import FEW, all_record_bytes, largest_record_bytes, record_bytes
from log_format.topic.append import Batch
from log_format.topic.appended import Duplicate
from log_format.topic.config import check_topic_name
from log_format.topic.state import TopicState

INLINE_BYTES_MAX: Final = 160 * 1024
INLINE_RECORDS_MAX: Final = 8_192
"""A request that has more, or is compressed, is decoded in a thread. Java's producer sends 16 KiB for each of some partitions."""
ORIGINAL_RECORDS_MIN: Final = 16
ORIGINAL_BYTES_MIN: Final = 4 * 1024
"""Of records, decompressed. Batches with less than both are encoded anew, many as one: that takes less than many small ones."""
FRAME_PART_MIN: Final = 0.9
"""A batch that is so much of its frame is kept as a part of it, others are copied: a part keeps the whole frame in memory."""
_ACKS: Final = (-1, 0, 1)
_TIMESTAMP: Final = BATCH_SCHEMA.get_field_index("timestamp")
_log = logging.getLogger("gateway.kafka")


@dataclass(slots=True)
class _Part:
    """One partition of a request, on its way."""

    topic: str | None
    topic_id: Any
    index: int
    error: KafkaError | None = None
    refused: RefusedRecords | None = None
    """Where the topic's settings refuse records: which."""
    head: BatchHead | None = None
    batch: memoryview | None = None
    stamped: Stamped = PLAIN
    open_topic: OpenTopic | None = None
    state: TopicState | None = None
    records: pa.Table | SingleRecord | None = None
    largest_bytes: int = 0
    size_bytes: int = 0
    """Of the largest record, and of all: keys, values, headers."""
    pending: PendingBatch | None = None
    staged: Batch | None = None
    """Of a transaction: put beside the topic."""
    base_offset: int = -1
    append_time_ms: int = NO_TIME
    log_start: int = -1


async def produce(call: KafkaCall, request: Any) -> Answer | Later:
    """Read, decode, submit; then answer once all is committed."""
    parts = await _read(call, request)
    acks = request.acks
    if _is_large(parts):
        pool = call.gateway.codec_pool
        await asyncio.get_running_loop().run_in_executor(pool, _decode_all, call, parts)
    else:
        _decode_all(call, parts)
    del request  # with the frame's bytes: what is left are the records
    for number, part in enumerate(parts, 1):
        await _submit(call, part)
        await let_others_in(number)
    call.spend(PRODUCE_BYTES, sum(part.size_bytes for part in parts))
    for part in parts:
        part.records = part.batch = None
    call.frame.shrink_to(HEAD_BYTES)
    if acks == 0:
        if any(part.error or part.staged is not None for part in parts):
            raise Refused("a batch with acks=0 can't be taken")
        return None
    return Later(_answered(call, parts))


def _is_large(parts: Sequence[_Part]) -> bool:
    """Whether decoding takes long; of what is compressed that is not known before."""
    size = sum(len(part.batch) for part in parts if part.batch is not None)
    heads = [part.head for part in parts if part.head is not None]
    count = sum(head.count for head in heads)
    return size > INLINE_BYTES_MAX or count > INLINE_RECORDS_MAX or any(head.codec for head in heads)


async def _read(call: KafkaCall, request: Any) -> list[_Part]:
    parts = []
    for topic in request.topic_data:
        topic_id = getattr(topic, "topic_id", None)
        name = topic.name if call.version < 13 else await call.known_topics.name(topic_id)
        for partition in topic.partition_data:
            part = _Part(name, topic_id, partition.index)
            parts.append(part)
            await let_others_in(len(parts))
            if request.acks not in _ACKS:
                part.error = KafkaError.invalid_required_acks
            elif name is None:
                part.error = KafkaError.unknown_topic_id
            else:
                part.error = await _checked(call, request.transactional_id, name, partition.records, part)
    return parts


async def _checked(
    call: KafkaCall, transactional_id: str | None, name: str, records: memoryview | None, part: _Part
) -> KafkaError | None:
    """Find the partition's topic, and read the head of its batch."""
    try:
        call.require("Write", "topic", name)
        check_topic_name(name)
        if part.index < 0:
            return KafkaError.unknown_topic_or_partition
        part.open_topic = await call.engine.open_topic(name, part.index)
        part.state = part.open_topic.existing_own()
        if not call.known_topics.is_of(part.topic_id, part.state):
            return KafkaError.unknown_topic_id
        part.batch = memoryview(b"") if records is None else records
        part.head = read_head(part.batch)
        if part.head.attributes & CONTROL:
            return KafkaError.invalid_record
        if len(part.batch) > part.state.config.integer("max.message.bytes"):
            return KafkaError.message_too_large
        part.stamped = stamp_of(call, transactional_id, part.index, part.head)
    except TidelogError as error:
        return kafka_error(error)
    except WrongChecksum:
        return KafkaError.corrupt_message
    except OldMagic:
        return KafkaError.unsupported_for_message_format
    except Malformed:
        return KafkaError.invalid_record
    return None


def _decode_all(call: KafkaCall, parts: Sequence[_Part]) -> None:
    """Their records; in a thread if they are many."""
    left = call.gateway.settings.request_bytes_max
    by_topic: dict[str | None, list[_Part]] = {}
    for part in parts:
        if part.error is None and part.head is not None and not part.head.codec and part.head.count > FEW_RECORDS:
            by_topic.setdefault(part.topic, []).append(part)
    for some in by_topic.values():
        if len(some) > 1:
            _decode_together(some, call.arrived_at_ms, left)
    for part in parts:
        if part.error is None:
            assert part.head is not None
            assert part.batch is not None
            try:
                if part.records is None:
                    part.records = decoded(part.head, part.batch, call.arrived_at_ms, left)
                    _measure(part)
                left -= max(part.size_bytes, len(part.batch))
                part.error = _refused(part, call.arrived_at_ms)
            except TooLarge:
                part.error = KafkaError.message_too_large
            except UnknownCodec:
                part.error = KafkaError.unsupported_compression_type
            except Malformed:
                part.error = KafkaError.invalid_record


def _decode_together(parts: Sequence[_Part], now_ms: int, bytes_max: int) -> None:
    """Of one topic, since they share memory until its flush. Where one can't be decoded, nothing is done."""
    heads = [part.head for part in parts if part.head is not None]
    batches = [part.batch for part in parts if part.batch is not None]
    try:
        records = decoded_together(heads, batches, now_ms, bytes_max)
    except (Malformed, TooLarge):
        return
    sizes, start = record_bytes(records), 0
    for part, head in zip(parts, heads, strict=True):
        part.records = records.slice(start, head.count)
        own = sizes[start : start + head.count]
        part.largest_bytes, part.size_bytes = int(own.max()), int(own.sum())
        start += head.count


def _measure(part: _Part) -> None:
    assert part.records is not None
    if isinstance(part.records, SingleRecord):
        part.largest_bytes = part.size_bytes = part.records.size_bytes
    elif part.records.num_rows <= FEW:
        part.largest_bytes, part.size_bytes = largest_record_bytes(part.records), all_record_bytes(part.records)
    else:
        sizes = record_bytes(part.records)
        part.largest_bytes, part.size_bytes = int(sizes.max()), int(sizes.sum())


def _refused(part: _Part, now_ms: int) -> KafkaError | None:
    """What the topic's settings say to the records, as they are known."""
    assert part.records is not None
    assert part.state is not None
    part.refused = refused_records(part.records, part.state.config, part.largest_bytes, now_ms)
    return None if part.refused is None else part.refused.error


async def _submit(call: KafkaCall, part: _Part) -> None:
    if part.error is not None:
        return
    state, records, topic = part.state, part.records, part.open_topic
    assert state is not None
    assert state.topic_id is not None
    assert records is not None
    assert topic is not None
    assert part.head is not None
    if state.config.choice("message.timestamp.type") == "LogAppendTime":
        part.append_time_ms = call.arrived_at_ms
        records = _at_time(records, part.append_time_ms)
    batch = Batch(
        topic_id=state.topic_id,
        records=records,
        partitions=part.index,
        record_bytes_max=part.largest_bytes,
        stamp=part.stamped.stamp,
        original=_original(call, part),
    )
    size = batch.nbytes + len(batch.original or b"")
    try:
        if part.stamped.producing is not None:
            call.held.append(call.records_memory(size))
            part.staged = batch
        elif part.stamped.stamp is None:
            part.pending = topic.submit(batch, call.records_memory(size))
        else:
            deadline_ms = call.engine.clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
            part.pending = await topic.submit_in_order(batch, call.records_memory(size), deadline_ms)
    except TidelogError as error:
        part.error = produce_error(error)


def _at_time(records: pa.Table | SingleRecord, time_ms: int) -> pa.Table | SingleRecord:
    """The records with this time as theirs."""
    if isinstance(records, SingleRecord):
        return records._replace(timestamp_ms=time_ms)
    field = BATCH_SCHEMA.field(_TIMESTAMP)
    times = pa.array(np.full(records.num_rows, time_ms * 1000)).view(field.type)
    return records.set_column(_TIMESTAMP, field, times)


def _original(call: KafkaCall, part: _Part) -> bytes | memoryview | None:
    """The producer's bytes, where a reader may get them as they are, and memory for requests is not short."""
    head, batch, state = part.head, part.batch, part.state
    assert head is not None
    assert batch is not None
    assert state is not None
    if part.stamped.producing is not None or head.attributes & ~int(CODEC_MASK) or head.first_timestamp == NO_TIMESTAMP:
        return None
    if head.count < ORIGINAL_RECORDS_MIN and part.size_bytes < ORIGINAL_BYTES_MIN:
        return None
    memory = call.gateway.request_memory
    if part.append_time_ms >= 0 or memory.used_bytes > memory.bytes_max * ORIGINALS_PART:
        return None
    frame = batch.obj
    assert isinstance(frame, bytearray | bytes)
    return batch if len(batch) > len(frame) * FRAME_PART_MIN else bytes(batch)


async def _stage(call: KafkaCall, parts: Sequence[_Part]) -> None:
    """Put the batches of transactions beside their topics."""
    by_producer: dict[Producing, list[_Part]] = {}
    for part in parts:
        if part.staged is not None and part.stamped.producing is not None:
            by_producer.setdefault(part.stamped.producing, []).append(part)
    for producing, some in by_producer.items():
        batches = [(part.topic, part.staged) for part in some if part.topic is not None and part.staged is not None]
        outcomes: Sequence[TidelogError | None]
        try:
            outcomes = await call.engine.kafka_transactions.stage(producing, batches)
        except TidelogError as error:
            outcomes = [error] * len(some)
        for part, outcome in zip(some, outcomes, strict=True):
            part.staged = None
            part.error = None if outcome is None else staging_error(outcome)
            part.base_offset = staged_offset(call) if outcome is None else NO_OFFSET


async def _answered(call: KafkaCall, parts: Sequence[_Part]) -> Answer:
    await _stage(call, parts)
    for part in parts:
        if part.pending is not None:
            await _acknowledged(part)
    lone = parts[0] if len(parts) == 1 else None
    if lone is not None and lone.error is None and lone.append_time_ms == NO_TIME and not call.pause_ms:
        place = {"base_offset": lone.base_offset, "log_start": lone.log_start}
        return lone_answer(call.version, lone.topic, lone.topic_id, lone.index, **place)
    by_topic: dict[Any, list[_Part]] = {}
    for part in parts:
        by_topic.setdefault(part.topic_id or part.topic, []).append(part)
    return call.answer(
        responses=[
            {
                "name": some[0].topic,
                "topic_id": some[0].topic_id,
                "partition_responses": [
                    partition_answer(
                        part.index,
                        part.error or KafkaError.none,
                        part.base_offset,
                        part.append_time_ms,
                        _log_start(part),
                        refused=part.refused,
                    )
                    for part in some
                ],
            }
            for some in by_topic.values()
        ],
    )


def _log_start(part: _Part) -> int:
    return NOTHING_LOST if part.error is KafkaError.unknown_producer_id else part.log_start


async def _acknowledged(part: _Part) -> None:
    assert part.open_topic is not None
    assert part.pending is not None
    try:
        found = await part.open_topic.appending.acknowledged(part.pending)
    except TidelogError as error:
        part.error = produce_error(error)
        return
    (place,) = found.places if isinstance(found, Duplicate) else found
    part.base_offset = place.base_offset
    state = part.open_topic.log.state  # its own: a journal moves no log start
    if state.exists and part.index < state.partition_count:  # else it was deleted since
        part.log_start = state.log_start(part.index)
