"""Translation of a batch's producer id, epoch and sequence into the producer's stamp in the topic, and its transaction."""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode as KafkaError

from gateway.access.rights import Unauthorized
from gateway.kafka.call import KafkaCall
from gateway.kafka.errors import kafka_error
from gateway.kafka.wire.batch_head import NO_PRODUCER, BatchHead
from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.topic.producer_id import format_number
from log_format.topic.producers import ProducerStamp

LOG_START_NEXT_EPOCH: Final = -2
"""Log start in an ``UNKNOWN_PRODUCER_ID`` answer. Java's client takes -1 for "ask again", and a log start above its newest
acknowledged offset for "records were deleted, begin at 0 in this epoch". A value below both makes it begin its next epoch, as
other clients do."""

NO_OFFSET: Final = -1
OFFSET_FAR_BELOW_ZERO: Final = -(2**62)
_KNOWS_NO_OFFSET: Final = frozenset({"apache-kafka-java", "kafka-python"})


def staged_base_offset(call: KafkaCall) -> int:
    """Return the base offset to answer for a transaction's batch, which has no offsets before the commit.

    Java's client and kafka-python understand -1 as such. All other clients add each record's index in the batch, and would report
    offsets that belong to other records: the returned value keeps what they report below 0.
    """
    return NO_OFFSET if call.session.software in _KNOWS_NO_OFFSET else OFFSET_FAR_BELOW_ZERO


class BatchOrigin(NamedTuple):
    """Origin of a batch. ``stamp`` None: the batch is not idempotent. ``producer`` None: it is not part of a transaction."""

    stamp: ProducerStamp | None = None
    producer: TransactionalProducer | None = None


NO_ORIGIN = BatchOrigin()


def batch_origin(call: KafkaCall, transactional_id: str | None, partition: int, head: BatchHead) -> BatchOrigin:
    """Return the producer's stamp and transaction of a batch. Raise ``RequestRefused``, ``Unauthorized``, ``BackOff``."""
    if head.is_transactional and transactional_id is None:
        raise Unauthorized("Write", "transactional_id", "")
    if head.producer_id == NO_PRODUCER and not head.is_transactional:
        return NO_ORIGIN
    if head.producer_id < 0 or head.producer_epoch < 0 or head.base_sequence < 0:
        raise RequestRefused(
            "A batch of an idempotent producer must have an id, an epoch and a sequence.", code=ErrorCode.INVALID_RECORD
        )
    stamp = ProducerStamp(format_number(head.producer_id, partition), head.producer_epoch, head.base_sequence)
    call.engine.producer_ids.check_number(stamp)
    if not head.is_transactional or transactional_id is None:
        return BatchOrigin(stamp)
    call.require("Write", "transactional_id", transactional_id)
    return BatchOrigin(
        stamp, TransactionalProducer(transactional_id, head.producer_id, head.producer_epoch, call.owner)
    )


def produce_error(error: TidelogError) -> KafkaError:
    """Return Kafka's code of an error. If the topic no longer knows the producer, the code is ``unknown_producer_id`` rather
    than out of order: clients then begin a new epoch."""
    if error.code is ErrorCode.SEQUENCE_OUT_OF_ORDER and error.retryable and not error.fields["expected_sequence"]:
        return KafkaError.unknown_producer_id
    return kafka_error(error)


def staging_error(error: TidelogError) -> KafkaError:
    """Return Kafka's code for an error of a transaction's batch. An error that ends the transaction, but not its producer, is
    ``INVALID_TXN_STATE``.

    A transaction that would become too large is ``POLICY_VIOLATION``, which clients don't retry: on ``MESSAGE_TOO_LARGE`` Java
    splits the batch in two and goes on.
    """
    if error.code is ErrorCode.REQUEST_TOO_LARGE:
        return KafkaError.policy_violation
    if error.code in (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.UNKNOWN_TRANSACTION):
        return KafkaError.invalid_producer_id_mapping
    return kafka_error(error)
