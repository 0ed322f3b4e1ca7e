"""A filtered read gets exactly what passes, from the tail and from the store, within limits, and never stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.engine.bounds import LOOK_STEP_BYTES, LOOK_STEP_RECORDS
from gateway.engine.fetch_answer import FetchAnswer, Fetched, FetchFrom
from gateway.engine.partition_streams import (
    PartitionStreams,
    Stream,
    StreamEvent,
    StreamRecords,
    StreamSilent,
    StreamWoken,
)
from gateway.engine.read_records import ReadLimits
from log_format.records.filter import RecordFilter
from tests.support.clocks import ManualClock
from tests.support.engine import Gateway, make_gateway, offsets_of, values_of

WANTED = RecordFilter(key=b"k")


async def answer_of(gateway: Gateway, offset: int = 0, wanted: RecordFilter = WANTED, **limits: Any) -> FetchAnswer:
    """A filtered fetch of one partition; its memory is given back."""
    answer = await gateway.fetch_all([FetchFrom(topic="t", partition=0, offset=offset, filter=wanted)], **limits)
    answer.reservation.release()
    return answer


async def fetched(gateway: Gateway, offset: int = 0, **limits: Any) -> Fetched:
    """Its one part."""
    (part,) = (await answer_of(gateway, offset, **limits)).parts
    assert isinstance(part, Fetched)
    return part


async def fill(gateway: Gateway, flushes: Sequence[Sequence[int]], size: int = 10) -> list[int]:
    """A topic with these flushes; 1 is a record that passes. The offsets of those."""
    topic = await gateway.topic(flush_ms=0)
    for flush in flushes:
        await gateway.append(topic, [b"x" * size] * len(flush), keys=[b"k" if one else b"" for one in flush])
    passes = [one for flush in flushes for one in flush]
    return [offset for offset, one in enumerate(passes) if one]


@pytest.mark.parametrize("source", ["tail", "store"])
async def test_filtered_reads_are_exact_whatever_the_limits(gateway: Gateway, source: str) -> None:
    """Reading on from each answer gives each passing record once; the limits count those only."""
    flushes = [[1, 0, 0], [0], [1, 1], [0, 0, 0, 0, 1], [0], [1, 0]]
    passing = await fill(gateway, flushes)
    if source == "store":
        gateway.forget_tail()
    for limits in ({"records": 1}, {"records": 2}, {"bytes_max": 1}, {"bytes_max": 22}, {"bytes_max": 23}, {}):
        for start in range(15):
            seen: list[int] = []
            offset = start
            while offset < 14:
                part = await fetched(gateway, offset, **limits)
                assert part.records.record_count <= limits.get("records", 500)
                assert part.records.size_bytes <= max(11, limits.get("bytes_max", 1 << 20))
                assert part.records.next_offset > offset
                seen += offsets_of(part)
                offset = part.records.next_offset
            assert seen == [one for one in passing if one >= start]
    assert (await fetched(gateway)).records.next_offset == 14


@pytest.mark.parametrize("source", ["tail", "store"])
async def test_a_look_is_cut_into_steps(gateway: Gateway, source: str) -> None:
    """One step never takes the event loop for more than its bytes and records; other work runs in between."""
    count = LOOK_STEP_RECORDS * 3
    await fill(gateway, [[0] * count + [1], [0] * count], size=LOOK_STEP_BYTES // LOOK_STEP_RECORDS)
    if source == "store":
        gateway.forget_tail()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    part = await fetched(gateway)
    other.cancel()
    assert offsets_of(part) == [count]
    assert turns >= 6


async def test_what_is_looked_at_is_bounded(gateway: Gateway) -> None:
    """Past the bound the read ends empty, and says where to go on; a bound of nothing looks at nothing."""
    await fill(gateway, [[0] * 10] * 8 + [[1]])
    topic = await gateway.engine.open_topic("t")
    offset, looks = 0, 0
    while True:
        limits = ReadLimits(records_max=10, bytes_max=1000, filter=WANTED, looked_bytes_max=250)
        records = await gateway.engine.reader.read(topic, topic.state, 0, offset, limits)
        looks += 1
        if records.record_count:
            break
        assert records.is_full
        assert records.looked_bytes >= 250
        offset = records.next_offset
    assert looks == 3
    none = ReadLimits(records_max=10, bytes_max=1000, filter=WANTED, looked_bytes_max=0)
    assert (await gateway.engine.reader.read(topic, topic.state, 0, 3, none)).next_offset == 3


async def test_a_waiting_fetch_looks_at_each_record_once(gateway: Gateway) -> None:
    """What was left out is not read again at each commit, and the answer moves past it when the time is over."""
    await fill(gateway, [[0] * 10] * 5)
    gateway.forget_tail()
    topic = await gateway.engine.open_topic("t")
    poll = asyncio.create_task(fetched(gateway, wait_ms=4_000))

    def looked() -> float | None:
        return gateway.registry.get_sample_value("tidelog_read_records_total", {"source": "store"})

    for seen in (50, 51, 52, 53):
        while looked() != seen:
            assert not poll.done(), (seen, looked())
            await asyncio.sleep(0.01)
        if seen < 53:
            await gateway.append(topic, [b""])
    part = await poll
    assert (part.records.record_count, part.records.next_offset) == (0, 53)
    assert looked() == 53
    assert gateway.memory.used_bytes == 0


async def test_a_waiting_fetch_holds_no_memory_and_wakes(gateway: Gateway) -> None:
    """A record that passes ends the wait at once; nothing is reserved meanwhile."""
    await fill(gateway, [[0] * 10])
    topic = await gateway.engine.open_topic("t")
    poll = asyncio.create_task(fetched(gateway, wait_ms=10_000))
    await asyncio.sleep(0.05)
    assert gateway.memory.used_bytes == 0
    await gateway.append(topic, [b"no", b"yes"], keys=[b"", b"k"])
    async with asyncio.timeout(8):
        assert values_of(await poll) == [b"yes"]


async def test_parts_have_filters_of_their_own(gateway: Gateway) -> None:
    """Of one fetch, each with another filter or none; limits are totals over what passes."""
    topic = await gateway.topic(flush_ms=0, partition_count=3)
    for partition in range(3):
        await gateway.append(topic, [b"0", b"1", b"2"], partition, keys=[b"a", b"b", b"a"])
    filters = [RecordFilter(key=b"a"), None, RecordFilter(key=b"b")]
    wanted = [FetchFrom(topic="t", partition=number, offset=0, filter=one) for number, one in enumerate(filters)]
    answer = await gateway.fetch_all(wanted, records=5)
    parts = [part for part in answer.parts if isinstance(part, Fetched)]
    assert [offsets_of(part) for part in parts] == [[0, 2], [0, 1, 2], []]
    assert [part.records.next_offset for part in parts] == [3, 3, 0]
    answer.reservation.release()


async def test_copies_hold_nothing_of_what_was_left_out(gateway: Gateway) -> None:
    """One record in a large run does not keep the run in memory."""
    await fill(gateway, [[0] * 500 + [1] + [0] * 500], size=1000)
    (table,) = (await fetched(gateway)).records.tables
    assert (
        sum(buffer.size for column in table.columns for chunk in column.chunks for buffer in chunk.buffers() if buffer)
        < 8192
    )


async def not_stirred(stream: Stream) -> StreamEvent:
    """The stream's next event that a reader would see."""
    while isinstance(event := await stream.next(), StreamWoken):
        pass
    return event


async def test_a_filtered_stream_is_silent_in_time() -> None:
    """Records that are left out keep coming: after ``PING_MS`` the stream says so, and knows how far it came."""
    gateway = make_gateway()
    await fill(gateway, [[0, 1, 0]])
    topic = await gateway.engine.open_topic("t")
    clock = ManualClock()
    following = PartitionStreams(
        gateway.engine.reader,
        clock=clock,
        places=gateway.engine.streams._places,
        draining=gateway.engine.streams._draining,
    )
    with following.follow(topic, 0, 0, gateway.memory, WANTED) as stream:
        event = await stream.next()
        assert isinstance(event, StreamRecords)
        assert [table.column("offset").to_pylist() for table in event.records.tables] == [[1]]
        event.reservation.release()
        waiting = asyncio.create_task(not_stirred(stream))
        for _ in range(4):
            await asyncio.sleep(0.01)
            assert not waiting.done()
            clock.pass_ms(4_000)
            await gateway.append(topic, [b"x"])
        async with asyncio.timeout(8):
            assert isinstance(await waiting, StreamSilent)
        assert stream.offset == 7
    assert gateway.memory.used_bytes == 0
    await gateway.engine.drain()
