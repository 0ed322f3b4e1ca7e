"""A store that stalls: what a consumer reads from it by plan is asked a second time, a missing object is no stall."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.segment import EncodedSegment, encode_segment
from tests.support.fake_gateway import FakeGateway
from tests.support.fake_s3 import Answer, FakeS3, fake_s3
from tidelog import Consumer, Record, TopicPartition
from tidelog.aio import Consumer as AsyncConsumer

PLACE = TopicPartition("t", 0)
SEGMENT_RECORDS = 11_000
COUNT = 12_000
PATIENCE_S = 10
"""The store stalls for longer, and hedges come sooner."""
STALLED = Answer(stalls=True)


def segment() -> EncodedSegment:
    """The first records of the partition, which say that they come from the store."""
    offsets = range(SEGMENT_RECORDS)
    rows = {
        "partition": [0] * SEGMENT_RECORDS,
        "offset": offsets,
        "timestamp": [0] * SEGMENT_RECORDS,
        "key": [None] * SEGMENT_RECORDS,
        "value": [b"of the store"] * SEGMENT_RECORDS,
        "headers": [None] * SEGMENT_RECORDS,
    }
    table = pa.table({name: pa.array(rows[name], RECORD_SCHEMA.field(name).type) for name in RECORD_SCHEMA.names})
    return encode_segment(table.cast(RECORD_SCHEMA), compression="zstd")


@pytest.fixture
def store(gateway: FakeGateway) -> Iterator[FakeS3]:
    """It has the segment that the gateway's plan names."""
    encoded = segment()
    gateway.create("t").records[0] = [Record("t", 0, offset, 0, None, b"of the gateway") for offset in range(COUNT)]
    with fake_s3() as fake:
        fake.answers = [Answer(body=encoded.data)]
        planned = {
            "key": "topics/t/segments/one.parquet",
            "url": f"{fake.url}/one?signed=yes",
            "size_bytes": len(encoded.data),
            "stored_bytes": 5_000_000,
            "footer": {"position": encoded.footer_start, "crc32": encoded.footer_crc32},
            "start_offset": 0,
            "end_offset": SEGMENT_RECORDS,
        }
        plan = {"high_watermark": COUNT, "next_offset": SEGMENT_RECORDS, "segments": [planned]}
        gateway.misbehave("GET .*/segments", gateway.answer(200, json.dumps(plan).encode()))
        yield fake


def values(gateway: FakeGateway) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        consumer.assign([PLACE])
        consumer.seek(PLACE, 0)
        while len(found) < COUNT:
            found += consumer.poll_arrow(timeout_ms=30_000).column("value").to_pylist()
    return found


async def async_values(gateway: FakeGateway) -> list[bytes]:
    found: list[bytes] = []
    async with AsyncConsumer(bootstrap_servers=gateway.url) as consumer:
        await consumer.assign([PLACE])
        await consumer.seek(PLACE, 0)
        while len(found) < COUNT:
            found += (await consumer.poll_arrow(timeout_ms=30_000)).column("value").to_pylist()
    return found


@pytest.mark.parametrize("is_async", [False, True], ids=["consumer", "aio"])
def test_a_store_that_stalls_one_answer_holds_up_no_consumer(
    gateway: FakeGateway, store: FakeS3, *, is_async: bool
) -> None:
    """The second request's answer counts: the records come from the store, before the first answer's time is over."""
    store.answers.insert(0, STALLED)
    began = time.monotonic()
    found = asyncio.run(async_values(gateway)) if is_async else values(gateway)
    assert time.monotonic() - began < PATIENCE_S
    assert found.count(b"of the store") >= SEGMENT_RECORDS - 1_000
    assert len(store.requests) == 2


def test_a_store_that_answers_is_asked_once(gateway: FakeGateway, store: FakeS3) -> None:
    """Nothing is hedged where nothing stalls."""
    assert values(gateway).count(b"of the store") >= SEGMENT_RECORDS - 1_000
    assert len(store.requests) == 1


@pytest.mark.parametrize(
    "answer", [Answer(status=404), Answer(body=bytes(len(segment().data)))], ids=["missing", "damaged"]
)
def test_a_segment_that_is_missing_or_damaged_costs_one_request(
    gateway: FakeGateway, store: FakeS3, answer: Answer
) -> None:
    """The gateway serves its records at once; the store is asked no second time."""
    store.answers = [answer]
    began = time.monotonic()
    assert values(gateway) == [b"of the gateway"] * COUNT
    assert time.monotonic() - began < PATIENCE_S
    assert len(store.requests) == 1
