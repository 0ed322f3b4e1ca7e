"""Batches that are decoded by their flush: those of one flush are appended or refused each by itself."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from gateway.kafka.wire.few_records import RECORDS_MAX as FEW_RECORDS
from tests.support.kafka_frames import Wire, answered, framed
from tests.support.kafka_gateway import KafkaGateway

COUNT = FEW_RECORDS + 4
INVALID_RECORD, OUT_OF_ORDER = 87, 45
VERSION = 9


def batch(first: int, *, producer_id: int = -1) -> bytes:
    """A batch of records that have the numbers from ``first`` on."""
    epoch, sequence = (-1, -1) if producer_id < 0 else (0, first)
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=producer_id, producer_epoch=epoch,
        base_sequence=sequence, batch_size=1 << 20,
    )  # fmt: skip
    for number in range(COUNT):
        builder.append(number, 1_700_000_000_000 + number, b"key", b"%d" % (first + number), [])
    return bytes(builder.build())


def with_a_lie(good: bytes) -> bytes:
    """The batch with another length of its last record, and the right checksum over that."""
    changed = bytearray(good)
    at = good.rindex(b"key") - 5
    changed[at] += 2
    changed[17:21] = struct.pack(">I", calc_crc32c(bytes(changed[21:])))
    return bytes(changed)


def answers(wire: Wire, topic: str, batches: list[bytes]) -> list[Any]:
    """Send all, as Java's producer does, before the first answer is read; return what is said of each."""
    for records in batches:
        topics = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
        values: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout": 5000, "topic_data": topics}
        wire.send(framed("produce", VERSION, wire.correlate(), **values))
    found = [answered("produce", VERSION, wire.frame())[1] for _ in batches]
    return [answer.responses[0].partition_responses[0] for answer in found]


def stored(gateway: KafkaGateway, topic: str) -> list[int]:
    """The numbers of the records that are read, in the order of their offsets."""
    answer = gateway.http.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": "earliest"})
    assert answer.status_code == 200, answer.text
    return [int(record["value"]) for record in answer.json()["records"]]


def numbers(*firsts: int) -> list[int]:
    """The numbers of the batches that begin so."""
    return [number for first in firsts for number in range(first, first + COUNT)]


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_a_malformed_batch_is_refused_alone(gateway: KafkaGateway, wire: Wire, mode: str) -> None:
    """The batches before and after it in its flush are appended; none of its records ever is."""
    topic = f"deferred-{mode}"
    gateway.topic(topic, 1, **{"commit.mode": mode, "flush.ms": 100})
    sent = [batch(COUNT * number) for number in range(5)]
    sent[2] = with_a_lie(sent[2])
    found = answers(wire, topic, sent)
    assert [one.error_code for one in found] == [0, 0, INVALID_RECORD, 0, 0]
    assert [one.base_offset for one in found if not one.error_code] == [0, COUNT, 2 * COUNT, 3 * COUNT]
    assert stored(gateway, topic) == numbers(0, COUNT, 3 * COUNT, 4 * COUNT)


def test_what_follows_a_malformed_batch_of_an_idempotent_producer_is_out_of_order(
    gateway: KafkaGateway, wire: Wire
) -> None:
    """Its sequence is not used up, so the next batches wait for a good one; sent again, each is appended once."""
    topic = "deferred-in-order"
    gateway.topic(topic, 1, flush_ms=100)
    producer_id = wire.call("init_producer_id", 4, transactional_id=None, transaction_timeout=0).producer_id
    good = [batch(COUNT * number, producer_id=int(producer_id)) for number in range(3)]
    found = answers(wire, topic, [good[0], with_a_lie(good[1]), good[2]])
    assert [one.error_code for one in found] == [0, INVALID_RECORD, OUT_OF_ORDER]
    assert [one.error_code for one in answers(wire, topic, good)] == [0, 0, 0]
    assert stored(gateway, topic) == numbers(0, COUNT, 2 * COUNT)
