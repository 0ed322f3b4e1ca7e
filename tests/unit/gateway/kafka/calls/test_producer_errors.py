"""What Kafka's clients are told of producers and transactions: the code decides whether they go on, abort, or die."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.calls import transactions
from gateway.kafka.calls.batch_origin import produce_error, staging_error
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.topic.producer_id import format_number
from log_format.topic.producers import ProducerStamp, fenced_error, out_of_order_error
from log_format.transactions.changes import NotFinished
from log_format.transactions.kafka_producers import given_up_error
from log_format.transactions.row import Reason, TransactionRow

STAMP = ProducerStamp(format_number(1, 0), 0, 5)


def row(reason: Reason = "") -> TransactionRow:
    return TransactionRow(
        transaction_id="t",
        transactional_id="mine",
        producer_id=format_number(1),
        epoch=0,
        state="aborted",
        reason=reason,
        began_at_ms=0,
        expires_at_ms=0,
        recorded_at_ms=0,
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (out_of_order_error(STAMP, 3), KafkaError.out_of_order_sequence_number),
        (out_of_order_error(STAMP, 9), KafkaError.out_of_order_sequence_number),
        (out_of_order_error(STAMP, 0), KafkaError.unknown_producer_id),
        (fenced_error("k", 0, 1), KafkaError.invalid_producer_epoch),
        (OutcomeUnknown("?"), KafkaError.request_timed_out),
    ],
)
def test_an_idempotent_batch(error: TidelogError, told: KafkaError) -> None:
    """Where nothing is known of the epoch the batch is not out of order: librdkafka takes that for a defect at the head."""
    assert produce_error(error) is told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (given_up_error(row("expired")), KafkaError.invalid_txn_state),
        (fenced_error("k", 0, 1), KafkaError.invalid_producer_epoch),
        (RequestRefused("?", code=ErrorCode.UNKNOWN_PRODUCER), KafkaError.invalid_producer_id_mapping),
        (OutcomeUnknown("?"), KafkaError.request_timed_out),
    ],
)
def test_a_batch_of_a_transaction(error: TidelogError, told: KafkaError) -> None:
    """``UNKNOWN_PRODUCER_ID`` would have Java's client send it again for ever."""
    assert staging_error(error) is told


@pytest.mark.parametrize(
    ("error", "is_fencing", "told"),
    [
        (NotFinished(row()), True, KafkaError.concurrent_transactions),
        (fenced_error("k", 0, 1), True, KafkaError.producer_fenced),
        (fenced_error("k", 0, 1), False, KafkaError.invalid_producer_epoch),
        (given_up_error(row("offsets")), True, KafkaError.unknown_producer_id),
        (RequestRefused("?", code=ErrorCode.TRANSACTION_NOT_OPEN), True, KafkaError.invalid_txn_state),
        (RequestRefused("?", code=ErrorCode.SEQUENCE_OUT_OF_ORDER), True, KafkaError.unknown_producer_id),
        (RequestRefused("?", code=ErrorCode.STALE_GENERATION), True, KafkaError.illegal_generation),
        (BackOff("?"), True, KafkaError.coordinator_not_available),
        (OutcomeUnknown("?"), True, KafkaError.coordinator_not_available),
    ],
)
def test_calls_to_the_coordinator(error: TidelogError, is_fencing: bool, told: KafkaError) -> None:
    """A transaction that was given up is aborted and followed by the next epoch; a fenced client ends."""
    assert transactions._error(error, is_fencing=is_fencing) is told
