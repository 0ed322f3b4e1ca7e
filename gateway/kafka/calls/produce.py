"""Produce: batches of several topics and partitions, each with its own answer.

1. The batches of one connection are submitted in the order in which they came. Later requests begin before earlier ones are
   committed.
2. Each partition's batch is accepted or refused by itself. Batches of one topic, and of topics at one journal, share commits as
   HTTP's do.
3. A batch is one of magic 2, as from every client since 2017. Its head and checksum are checked before any batch is submitted,
   and its records before that or by its flush (``deferred_batches``).
4. The tail cache also keeps the producer's bytes of large batches, so that consumers at the tail get them without encoding.
5. With acks=0 there is no answer. A batch that can't be taken closes the connection, as a broker does.

Source: KIP-98 (batches), KIP-516 (topic ids); Kafka's ``LogValidator``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.bounds import SEQUENCE_WAIT_MS_MAX
from gateway.kafka.bounds import HEAD_BYTES, ORIGINALS_MEMORY_SHARE
from gateway.kafka.call import Answer, CloseConnection, KafkaCall, PendingAnswer, yield_to_loop
from gateway.kafka.calls.batch_origin import (
    LOG_START_NEXT_EPOCH,
    batch_origin,
    produce_error,
    staged_base_offset,
    staging_error,
)
from gateway.kafka.calls.deferred_batches import DeferredBatch, kept_bytes, may_be_deferred
from gateway.kafka.calls.produce_answers import answer_fields, encode_single_answer
from gateway.kafka.calls.produce_decoding import NO_READERS, ReadersBySubjects, decode_all
from gateway.kafka.calls.produce_schemas import is_typed, judged_by_newer, with_readers
from gateway.kafka.calls.produce_stages import (
    NO_APPEND_TIME,
    AdmittedBatch,
    DecodedBatch,
    PartitionAnswer,
    RequestedPartition,
    StagedBatch,
    SubmittedBatch,
)
from gateway.kafka.errors import kafka_error
from gateway.kafka.wire.batch_head import CODEC_MASK, CONTROL, OldMagic, WrongChecksum, read_head
from gateway.kafka.wire.few_records import NO_TIMESTAMP
from gateway.kafka.wire.reading import Malformed
from gateway.quotas.limits import PRODUCE_BYTES
from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.errors import TidelogError
from log_format.records.schema import BATCH_SCHEMA
from log_format.records.single import SingleRecord
from log_format.topic.append import Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.config import UNTYPED, check_topic_name

INLINE_BYTES_MAX: Final = 160 * 1024
INLINE_RECORDS_MAX: Final = 8_192
"""A request with more bytes or records, or with compressed ones, is decoded in a thread. Java's producer sends 16 KiB for each
partition."""
ORIGINAL_RECORDS_MIN: Final = 16
ORIGINAL_BYTES_MIN: Final = 4 * 1024
"""Least records or decompressed bytes of a batch whose bytes are kept. Smaller batches are merged and encoded anew for a reader:
one large batch costs a reader less than many small ones."""
_ACKS: Final = (-1, 0, 1)
_TIMESTAMP: Final = BATCH_SCHEMA.get_field_index("timestamp")


async def produce(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Admit, decode, submit; then answer once all is committed."""
    acks = request.acks
    admitted = await _admit_all(call, request)
    del request  # It holds the frame's bytes; the decoded records do not.
    readers: ReadersBySubjects = NO_READERS
    if has_schemas := is_typed(admitted):
        admitted, readers = await with_readers(call, admitted)
    if has_schemas or _is_large(admitted):
        pool = call.gateway.codec_pool
        decoded = await asyncio.get_running_loop().run_in_executor(pool, decode_all, call, admitted, readers)
    else:
        decoded = decode_all(call, [_deferred(call, part, acks) for part in admitted])
    if has_schemas:
        decoded = await judged_by_newer(call, decoded, readers)
    del admitted
    submitted = await _submit_all(call, decoded)
    call.spend(PRODUCE_BYTES, sum(part.size_bytes for part in decoded if isinstance(part, DecodedBatch)))
    del decoded
    call.frame.shrink_to(HEAD_BYTES)
    if acks == 0:
        if not all(isinstance(one, SubmittedBatch) for one in submitted):
            raise CloseConnection("a batch with acks=0 can't be taken")
        return None
    return PendingAnswer(_answer_all(call, submitted))


def _deferred(
    call: KafkaCall, part: AdmittedBatch | PartitionAnswer, acks: int
) -> AdmittedBatch | DecodedBatch | PartitionAnswer:
    """Return the batch as one that its flush decodes, where that may be."""
    if isinstance(part, PartitionAnswer) or not may_be_deferred(part, acks):
        return part
    records = DeferredBatch(part, call.arrived_at_ms, call.gateway.settings.request_bytes_max)
    return DecodedBatch(part, records, largest_bytes=0, size_bytes=records.size_bytes, refused=None)


def _is_large(parts: Sequence[AdmittedBatch | PartitionAnswer]) -> bool:
    """Return whether decoding takes long. The size of compressed records is not known before: they count as large."""
    admitted = [part for part in parts if isinstance(part, AdmittedBatch)]
    size = sum(len(part.batch) for part in admitted)
    count = sum(part.head.count for part in admitted)
    return size > INLINE_BYTES_MAX or count > INLINE_RECORDS_MAX or any(part.head.codec for part in admitted)


async def _admit_all(call: KafkaCall, request: Any) -> list[AdmittedBatch | PartitionAnswer]:
    parts: list[AdmittedBatch | PartitionAnswer] = []
    for topic in request.topic_data:
        topic_id = getattr(topic, "topic_id", None)
        name = topic.name if call.version < 13 else await call.known_topics.name(topic_id)
        for partition in topic.partition_data:
            requested = RequestedPartition(name, topic_id, partition.index)
            if request.acks not in _ACKS:
                parts.append(PartitionAnswer(requested, KafkaError.invalid_required_acks))
            else:
                parts.append(await _admit(call, request.transactional_id, requested, partition.records))
            await yield_to_loop(len(parts))
    return parts


async def _admit(
    call: KafkaCall, transactional_id: str | None, requested: RequestedPartition, records: memoryview | None
) -> AdmittedBatch | PartitionAnswer:
    """Find the partition's topic, check the right to write to it, and read the head of the batch."""
    name = requested.topic
    if name is None:
        return PartitionAnswer(requested, KafkaError.unknown_topic_id)
    try:
        call.require("Write", "topic", name)
        check_topic_name(name)
        if requested.index < 0:
            return PartitionAnswer(requested, KafkaError.unknown_topic_or_partition)
        open_topic = await call.engine.open_topic(name, requested.index)
        state = open_topic.require_own_state()
        if not call.known_topics.is_id_of(requested.topic_id, state):
            return PartitionAnswer(requested, KafkaError.unknown_topic_id)
        batch = memoryview(b"") if records is None else records
        head = read_head(batch)
        if head.attributes & CONTROL:
            return PartitionAnswer(requested, KafkaError.invalid_record)
        if len(batch) > state.config.integer("max.message.bytes"):
            return PartitionAnswer(requested, KafkaError.message_too_large)
        origin = batch_origin(call, transactional_id, requested.index, head)
    except TidelogError as error:
        return PartitionAnswer(requested, kafka_error(error))
    except WrongChecksum:
        return PartitionAnswer(requested, KafkaError.corrupt_message)
    except OldMagic:
        return PartitionAnswer(requested, KafkaError.unsupported_for_message_format)
    except Malformed:
        return PartitionAnswer(requested, KafkaError.invalid_record)
    return AdmittedBatch(requested, name, open_topic, state, head, batch, origin)


async def _submit_all(
    call: KafkaCall, parts: Sequence[DecodedBatch | PartitionAnswer]
) -> list[SubmittedBatch | StagedBatch | PartitionAnswer]:
    submitted: list[SubmittedBatch | StagedBatch | PartitionAnswer] = []
    for number, part in enumerate(parts, 1):
        submitted.append(part if isinstance(part, PartitionAnswer) else await _submit(call, part))
        await yield_to_loop(number)
    return submitted


async def _submit(call: KafkaCall, part: DecodedBatch) -> SubmittedBatch | StagedBatch | PartitionAnswer:
    """Hand the records to the topic's writer; those of a transaction are only reserved memory here, and staged later."""
    admitted, records, append_time_ms = part.admitted, part.records, NO_APPEND_TIME
    requested, topic, origin = admitted.partition, admitted.open_topic, admitted.origin
    if part.refused is not None:
        return PartitionAnswer(requested, part.refused.error, part.refused)
    if admitted.state.config.choice("message.timestamp.type") == "LogAppendTime":
        append_time_ms = call.arrived_at_ms
        assert not isinstance(records, DeferredBatch)
        records = _set_timestamps(records, append_time_ms)
    batch = Batch(
        topic_id=admitted.state.existing_id,
        records=records,
        partitions=requested.index,
        record_bytes_max=part.largest_bytes,
        stamp=origin.stamp,
        original=None if append_time_ms != NO_APPEND_TIME else _original_bytes(call, part),
        typed=part.typed,
        subjects=UNTYPED if part.typed is None else admitted.state.config.subjects,
    )
    encoded = records.encoded if isinstance(records, DeferredBatch) else batch.original
    size = batch.nbytes + len(encoded or b"")
    try:
        if origin.producer is not None:
            call.reservations.append(call.records_memory(size))
            return StagedBatch(requested, admitted.name, origin.producer, batch)
        if origin.stamp is None:
            pending = topic.submit(batch, call.records_memory(size))
        else:
            deadline_ms = call.engine.clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
            pending = await topic.submit_in_order(batch, call.records_memory(size), deadline_ms)
    except TidelogError as error:
        return _refuse(requested, error)
    return SubmittedBatch(requested, topic, pending, append_time_ms)


def _refuse(requested: RequestedPartition, error: TidelogError) -> PartitionAnswer:
    code = produce_error(error)
    return PartitionAnswer(
        requested, code, log_start=LOG_START_NEXT_EPOCH if code is KafkaError.unknown_producer_id else -1
    )


def _set_timestamps(records: pa.Table | SingleRecord, time_ms: int) -> pa.Table | SingleRecord:
    """Return the records with this time as theirs."""
    if isinstance(records, SingleRecord):
        return records._replace(timestamp_ms=time_ms)
    field = BATCH_SCHEMA.field(_TIMESTAMP)
    times = pa.array(np.full(records.num_rows, time_ms * 1000)).view(field.type)
    return records.set_column(_TIMESTAMP, field, times)


def _original_bytes(call: KafkaCall, part: DecodedBatch) -> bytes | memoryview | None:
    """Return the producer's bytes, where a reader may get them unchanged, and memory for requests is not short."""
    admitted = part.admitted
    head, batch = admitted.head, admitted.batch
    if (
        admitted.origin.producer is not None
        or head.attributes & ~int(CODEC_MASK)
        or head.first_timestamp == NO_TIMESTAMP
    ):
        return None
    if head.count < ORIGINAL_RECORDS_MIN and part.size_bytes < ORIGINAL_BYTES_MIN:
        return None
    memory = call.gateway.request_memory
    if memory.used_bytes > memory.bytes_max * ORIGINALS_MEMORY_SHARE:
        return None
    return part.records.encoded if isinstance(part.records, DeferredBatch) else kept_bytes(batch)


async def _answer_all(call: KafkaCall, parts: Sequence[SubmittedBatch | StagedBatch | PartitionAnswer]) -> Answer:
    """Wait for the commits, and stage what belongs to transactions; then answer."""
    staged = await _stage_all(call, [part for part in parts if isinstance(part, StagedBatch)])
    answered: list[PartitionAnswer] = []
    for part in parts:
        if isinstance(part, SubmittedBatch):
            answered.append(await _wait_for_commit(part))
        else:
            answered.append(staged[part] if isinstance(part, StagedBatch) else part)
    return _encode_answer(call, answered)


async def _stage_all(call: KafkaCall, parts: Sequence[StagedBatch]) -> dict[StagedBatch, PartitionAnswer]:
    """Put the batches of transactions beside their topics."""
    by_producer: dict[TransactionalProducer, list[StagedBatch]] = {}
    for part in parts:
        by_producer.setdefault(part.producer, []).append(part)
    answers: dict[StagedBatch, PartitionAnswer] = {}
    for producer, some in by_producer.items():
        outcomes: Sequence[TidelogError | None]
        try:
            batches = [(part.name, part.batch) for part in some]
            outcomes = await call.engine.kafka_transactions.stage(producer, batches)
        except TidelogError as error:
            outcomes = [error] * len(some)
        for part, outcome in zip(some, outcomes, strict=True):
            if outcome is None:
                answers[part] = PartitionAnswer(part.partition, base_offset=staged_base_offset(call))
            else:
                answers[part] = PartitionAnswer(part.partition, staging_error(outcome))
    return answers


async def _wait_for_commit(part: SubmittedBatch) -> PartitionAnswer:
    """Wait for the batch's commit."""
    try:
        found = await part.open_topic.appending.await_acknowledgement(part.pending)
    except TidelogError as error:
        records = part.pending.batch.deferred
        if isinstance(records, DeferredBatch) and records.refused is not None and records.outcome is error:
            return PartitionAnswer(part.partition, records.refused.error, records.refused)
        return _refuse(part.partition, error)
    (appended,) = found.offset_ranges if isinstance(found, Duplicate) else found
    state = part.open_topic.log.state  # its own: a journal moves no log start
    exists = state.exists and part.partition.index < state.partition_count  # else it was deleted since
    return PartitionAnswer(
        part.partition,
        base_offset=appended.base_offset,
        append_time_ms=part.append_time_ms,
        log_start=state.log_start(part.partition.index) if exists else -1,
    )


def _encode_answer(call: KafkaCall, parts: Sequence[PartitionAnswer]) -> Answer:
    lone = parts[0] if len(parts) == 1 else None
    if (
        lone is not None
        and lone.error is KafkaError.none
        and lone.append_time_ms == NO_APPEND_TIME
        and not call.pause_ms
    ):
        return encode_single_answer(call.version, lone)
    by_topic: dict[Any, list[PartitionAnswer]] = {}
    for part in parts:
        by_topic.setdefault(part.partition.topic_id or part.partition.topic, []).append(part)
    return call.answer(
        responses=[
            {
                "name": some[0].partition.topic,
                "topic_id": some[0].partition.topic_id,
                "partition_responses": [answer_fields(part) for part in some],
            }
            for some in by_topic.values()
        ],
    )
