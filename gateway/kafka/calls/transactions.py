"""Idempotent producers and transactions: producer ids, epochs, begin, offsets, end.

1. Any gateway serves every one of these requests: no gateway keeps a producer or a transaction in memory only.
2. A transaction begins with the first request that names it. Its partitions are those that records are staged for.
3. An error that ends a transaction but not its producer is ``UNKNOWN_PRODUCER_ID``: clients abort, take a new epoch, and go on.

Source: KIP-98, KIP-360, KIP-447, KIP-664.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.groups.bounds import METADATA_BYTES_MAX
from gateway.kafka.call import Answer, KafkaCall, PendingAnswer, answer_concurrently
from gateway.kafka.calls.coordinator import is_name
from gateway.kafka.errors import COORDINATOR, kafka_error
from gateway.transactions.kafka_transactions import NO_PRODUCER, TransactionalProducer
from log_format import limits
from log_format.errors import BackOff, ErrorCode, TidelogError
from log_format.groups.changes import unknown_member_error
from log_format.groups.row import NO_EPOCH, belongs_to_another
from log_format.topic.producer_id import parse_number
from log_format.transactions.changes import NotFinished
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets

_NO_GENERATION: Final = -1
_SPECIAL: Final[Mapping[ErrorCode, KafkaError]] = MappingProxyType(
    {
        **COORDINATOR,
        ErrorCode.UNKNOWN_PRODUCER: KafkaError.invalid_producer_id_mapping,
        ErrorCode.SEQUENCE_OUT_OF_ORDER: KafkaError.unknown_producer_id,
        ErrorCode.REQUEST_TOO_LARGE: KafkaError.unknown_producer_id,
        ErrorCode.STALE_GENERATION: KafkaError.illegal_generation,
    }
)


async def init_producer_id(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
    """Answer with a new producer id, or with the next epoch of a transactional id."""
    if request.transactional_id is None:
        number = call.engine.producer_ids.issue_number()
        return call.answer(error_code=KafkaError.none, producer_id=number, producer_epoch=0)
    return PendingAnswer(_init_transactional(call, request))


async def _init_transactional(call: KafkaCall, request: Any) -> Answer:
    name = request.transactional_id
    timeout_ms = round(request.transaction_timeout.total_seconds() * 1000)
    number = getattr(request, "producer_id", NO_PRODUCER)
    asked = None if number == NO_PRODUCER else TransactionalProducer(name, number, request.producer_epoch, call.owner)
    error, row = KafkaError.none, None
    try:
        if not is_name(name):
            error = KafkaError.invalid_request
        elif not 0 < timeout_ms <= limits.TRANSACTION_TIMEOUT_MS_MAX:
            error = KafkaError.invalid_transaction_timeout
        else:
            call.require("Write", "transactional_id", name)
            row = await call.engine.kafka_transactions.init_producer(name, timeout_ms, asked, call.owner)
    except TidelogError as refusal:
        error = _error(refusal, is_fencing=call.version >= 4)
    return call.answer(
        error_code=error,
        producer_id=NO_PRODUCER if row is None else parse_number(row.producer_id),
        producer_epoch=-1 if row is None else row.epoch,
    )


@answer_concurrently
async def add_partitions_to_txn(call: KafkaCall, request: Any) -> Answer:
    """Begin the transaction, unless it is open."""
    producer = TransactionalProducer(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        call.owner,
    )
    topics = request.v3_and_below_topics
    try:
        call.require("Write", "transactional_id", producer.transactional_id)
        found = {topic.name: await _check_partitions(call, topic.name, topic.partitions) for topic in topics}
        if all(error is KafkaError.none for errors in found.values() for error in errors.values()):
            await call.engine.kafka_transactions.begin(producer)
        else:
            for errors in found.values():
                for partition, error in errors.items():
                    errors[partition] = KafkaError.operation_not_attempted if error is KafkaError.none else error
    except TidelogError as refusal:
        code = _error(refusal, is_fencing=call.version >= 2)
        found = {topic.name: dict.fromkeys(topic.partitions, code) for topic in topics}
    return call.answer(
        results_by_topic_v3_and_below=[
            {
                "name": name,
                "results_by_partition": [
                    {"partition_index": partition, "partition_error_code": error} for partition, error in errors.items()
                ],
            }
            for name, errors in found.items()
        ]
    )


async def _check_partitions(call: KafkaCall, topic: str, partitions: tuple[int, ...]) -> dict[int, KafkaError]:
    """Return each partition's error. Raise ``BackOff`` if the errors are not known: the answer then blames no partition,
    because clients give up a transaction at an error code that only partition leaders return."""
    found = dict.fromkeys(partitions, KafkaError.none)
    try:
        call.require("Write", "topic", topic)
        opened = await call.engine.open_topic(topic)
        if max(partitions, default=0) >= opened.state.partition_count:
            await opened.fresh()
        count = opened.require_state().partition_count
    except BackOff:
        raise
    except TidelogError as refusal:
        return dict.fromkeys(partitions, kafka_error(refusal))
    for partition in partitions:
        if not 0 <= partition < count:
            found[partition] = KafkaError.unknown_topic_or_partition
    return found


@answer_concurrently
async def add_offsets_to_txn(call: KafkaCall, request: Any) -> Answer:
    """Begin the transaction, unless it is open; the client then sends offsets of the group."""
    try:
        call.require("Write", "transactional_id", request.transactional_id)
        call.require("Read", "group", request.group_id)
        await call.engine.kafka_transactions.begin(_producer(call, request))
    except TidelogError as refusal:
        return call.answer(error_code=_error(refusal, is_fencing=call.version >= 2))
    return call.answer(error_code=KafkaError.none)


@answer_concurrently
async def txn_offset_commit(call: KafkaCall, request: Any) -> Answer:
    """Stage offsets of a group, checked against the group's present members."""
    found = {
        topic.name: [
            (one.partition_index, KafkaError.offset_metadata_too_large if _is_too_large(one) else KafkaError.none)
            for one in topic.partitions
        ]
        for topic in request.topics
    }
    try:
        call.require("Write", "transactional_id", request.transactional_id)
        call.require("Read", "group", request.group_id)
        for topic in request.topics:
            call.require("Read", "topic", topic.name)
        offsets = _offsets(request, *await _member(call, request))
        if offsets.offsets:
            await call.engine.kafka_transactions.stage_offsets(_producer(call, request), offsets)
    except TidelogError as refusal:
        code = _error(refusal)
        found = {name: [(partition, code) for partition, _ in many] for name, many in found.items()}
    return call.answer(
        topics=[
            {"name": name, "partitions": [{"partition_index": index, "error_code": code} for index, code in many]}
            for name, many in found.items()
        ]
    )


async def _member(call: KafkaCall, request: Any) -> tuple[str | None, int | None]:
    """Return the caller's member that commits, and its generation. Clients before KIP-447 name neither, and are fenced by the
    epoch of their transactional id. For them, in a classic group, the caller's first member in the present generation is used."""
    groups, name = call.engine.groups, request.group_id
    member_id, generation = getattr(request, "member_id", ""), getattr(request, "generation_id", _NO_GENERATION)
    if member_id or generation != _NO_GENERATION:
        await groups.member_ids.check(name, member_id, call.owner)
        return member_id, generation
    row = (await groups.committed.now(name)).row
    if row is None or row.classic is None or not row.members:
        return None, None
    for one in row.members:
        if not belongs_to_another(one.reader, call.owner):
            return one.member_id, row.generation
    raise unknown_member_error(name, member_id)


def _offsets(request: Any, member_id: str | None, generation: int | None) -> StagedOffsets:
    return StagedOffsets(
        group=request.group_id,
        member_id=member_id,
        generation=generation,
        offsets=tuple(
            StagedOffset(
                topic=topic.name,
                partition=one.partition_index,
                offset=one.committed_offset,
                metadata=one.committed_metadata or None,
                leader_epoch=getattr(one, "committed_leader_epoch", NO_EPOCH),
            )
            for topic in request.topics
            for one in topic.partitions
            if not _is_too_large(one)
        ),
    )


def _is_too_large(offset: Any) -> bool:
    return len((offset.committed_metadata or "").encode()) > METADATA_BYTES_MAX


@answer_concurrently
async def end_txn(call: KafkaCall, request: Any) -> Answer:
    """Commit or abort the transaction. The answer comes once its records are visible, or never will be."""
    try:
        call.require("Write", "transactional_id", request.transactional_id)
        await call.engine.kafka_transactions.end(_producer(call, request), call.require, is_committed=request.committed)
    except TidelogError as refusal:
        return call.answer(error_code=_error(refusal, is_fencing=call.version >= 2))
    return call.answer(error_code=KafkaError.none)


def _producer(call: KafkaCall, request: Any) -> TransactionalProducer:
    return TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch, call.owner)


def _error(error: TidelogError, *, is_fencing: bool = False) -> KafkaError:
    """Return Kafka's code of an error. ``is_fencing``: whether the request's version has ``PRODUCER_FENCED``."""
    if isinstance(error, NotFinished):
        return KafkaError.concurrent_transactions
    if error.code is ErrorCode.FENCED_PRODUCER and is_fencing:
        return KafkaError.producer_fenced
    if error.code is ErrorCode.TRANSACTION_NOT_OPEN and error.fields.get("reason"):
        return KafkaError.unknown_producer_id
    return kafka_error(error, _SPECIAL)
