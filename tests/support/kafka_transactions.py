"""A Kafka client's transaction over topic ``t``, by a gateway's engine."""

from __future__ import annotations

from typing import Final

from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.errors import TidelogError
from log_format.topic.producer_id import format_number, parse_number
from log_format.topic.producers import ProducerStamp
from tests.support.engine import Gateway, values_of
from tests.support.records import batch_of

MINE: Final = "mine"
"""The transactional id."""


async def begun(gateway: Gateway, timeout_ms: int = 60_000, **config: object) -> TransactionalProducer:
    """A topic with two partitions, made with these settings, and an epoch whose first transaction is open."""
    await gateway.topic("t", 2, flush_ms=0, **config)
    row = await gateway.engine.kafka_transactions.init_producer(MINE, timeout_ms)
    producer = TransactionalProducer(MINE, parse_number(row.producer_id), row.epoch)
    await gateway.engine.kafka_transactions.begin(producer)
    return producer


async def stage(
    gateway: Gateway, producer: TransactionalProducer, sequence: int, *values: bytes, partition: int = 0
) -> TidelogError | None:
    """Stage a batch of these values in topic ``t``; the refusal, where it is refused."""
    state = (await gateway.engine.open_topic("t")).state
    stamp = ProducerStamp(format_number(producer.producer_id, partition), producer.epoch, sequence)
    batch = batch_of(state.topic_id, values, partition, stamp=stamp)
    (outcome,) = await gateway.engine.kafka_transactions.stage(producer, [("t", batch)])
    return outcome


async def values(gateway: Gateway, partition: int = 0) -> list[bytes]:
    """The values of a partition of topic ``t``."""
    return values_of(await gateway.fetch(partition=partition))
