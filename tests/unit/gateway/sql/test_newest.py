"""What is read for a statement: the newest records of each partition, each once, up to where the topic ended; and how many."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gateway.sql.newest import BLOCK_RECORDS, BYTES_MAX, TOPICS_MAX, NewestReader, ReadTopic
from log_format.errors import RequestRefused, UnknownTopic
from tests.support.engine import Gateway, batch_of, make_gateway

MEBIBYTE = 1 << 20


async def read(
    gateway: Gateway, *topics: str, records_max: int = 50_000, timestamp_ms: int | None = None
) -> tuple[list[ReadTopic], dict[str, list[tuple[int, int]]]]:
    """What is told, and the partition and offset of each record that was given, by topic."""
    engine, given = gateway.engine, {topic: list[tuple[int, int]]() for topic in topics}

    async def take(topic: ReadTopic, table: pa.Table) -> None:
        given[topic.name] += zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)

    newest = NewestReader(engine.start_resolver, engine.fetcher, gateway.memory, engine.clock)
    told = await newest.read(topics, records_max=records_max, timestamp_ms=timestamp_ms, take=take)
    for topic in told:
        spans = [(span.partition, offset) for span in topic.spans for offset in range(span.offset, span.next_offset)]
        assert sorted(given[topic.name]) == spans
        assert topic.record_count == len(spans)
    assert gateway.memory.used_bytes == 0
    return told, given


def spans(topic: ReadTopic) -> list[tuple[int, int]]:
    return [(span.offset, span.next_offset) for span in topic.spans]


async def test_all_of_a_topic_in_blocks(gateway: Gateway) -> None:
    """Each record once, also where there are more than one block has."""
    count = 2 * BLOCK_RECORDS + 5
    await gateway.append(await gateway.topic(flush_ms=0), [b"v"] * count)
    (told,), _ = await read(gateway, "t")
    assert (spans(told), told.is_whole, told.size_bytes) == ([(0, count)], True, count)


async def test_the_newest_of_each_partition(gateway: Gateway) -> None:
    """A partition that has fewer leaves its share to the others; each gives one at least."""
    topic = await gateway.topic(flush_ms=0, partition_count=4)
    await gateway.append(topic, [b"v"] * 113, [0] * 3 + [1] * 50 + [3] * 60)
    (told,), _ = await read(gateway, "t", records_max=43)
    assert (spans(told), told.is_whole) == ([(0, 3), (30, 50), (0, 0), (40, 60)], False)
    (told,), _ = await read(gateway, "t", records_max=1)
    assert spans(told) == [(2, 3), (49, 50), (0, 0), (59, 60)]


async def test_from_a_time_on(gateway: Gateway) -> None:
    """Only what is not older, and of that the newest."""
    topic = await gateway.topic(flush_ms=0)
    for timestamp_ms in (1_000, 2_000, 3_000):
        await topic.appending.await_acknowledgement(
            topic.submit(batch_of(topic, [b"v"] * 10, timestamp_ms=timestamp_ms))
        )
    for timestamp_ms, records_max, expected in ((2_000, 100, (10, 30)), (2_000, 5, (25, 30)), (9_000, 100, (30, 30))):
        (told,), _ = await read(gateway, "t", records_max=records_max, timestamp_ms=timestamp_ms)
        assert spans(told) == [expected]


async def test_large_records_are_read_up_to_the_bytes() -> None:
    """From the newest back: a block that is too large is asked for again as smaller ones; the last one passes the bound."""
    gateway = make_gateway(tail_cache_bytes_max=0)
    for name in ("t", "u"):
        topic = await gateway.topic(name, flush_ms=0)
        for _ in range(5):
            await gateway.append(topic, [bytes(MEBIBYTE - 100)] * 5)
    (told,), _ = await read(gateway, "t")
    assert told.is_whole
    told_two, _ = await read(gateway, "t", "u")
    for one in told_two:
        ((offset, next_offset),) = spans(one)
        assert next_offset == 25
        assert BYTES_MAX // 2 <= one.size_bytes < BYTES_MAX // 2 + 2 * MEBIBYTE
        assert 25 - offset == one.record_count
        assert not one.is_whole
    await gateway.engine.drain()


async def test_what_cannot_be_read_is_refused(gateway: Gateway) -> None:
    """A topic that is not there, and too many of them."""
    await gateway.topic(flush_ms=0)
    with pytest.raises(UnknownTopic):
        await read(gateway, "t", "/etc/passwd")
    with pytest.raises(RequestRefused, match="names 9 topics"):
        await read(gateway, *(f"t{number}" for number in range(TOPICS_MAX + 1)))
