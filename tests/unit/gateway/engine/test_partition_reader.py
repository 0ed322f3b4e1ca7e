"""Reads against a plain list of records: exact limits, nothing skipped, from memory and from the store alike."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from gateway.engine.fetch_answer import Fetched, FetchFrom
from gateway.engine.read_records import ReadLimits
from log_format import layout
from log_format.errors import BackOff, CorruptData, ErrorCode, OffsetOutOfRange, UnsupportedTable
from log_format.segments.reader import SegmentReader
from tests.support.engine import Gateway, batch_of, make_gateway, offsets_of, values_of
from tests.support.faulty_store import Gate


@pytest.mark.parametrize("source", ["memory", "store", "both"])
async def test_reads_are_exact_whatever_the_limits(gateway: Gateway, source: str) -> None:
    """G4: from any offset and with any limits a read gives the longest head that fits, at least one record, no gap."""
    choice = random.Random(7)
    topic = await gateway.topic(flush_ms=0, partition_count=2)
    values: list[bytes] = []
    for flush in range(12):
        batch = [bytes(choice.randrange(0, 60)) for _ in range(choice.randrange(1, 40))]
        await gateway.append(topic, [*batch, b"other"], [0] * len(batch) + [1])
        values += batch
        if source == "both" and flush == 6:
            kept = gateway.engine._tail.bytes_max
            gateway.forget_tail()
            gateway.engine._tail.bytes_max = kept
    if source == "store":
        gateway.forget_tail()
    for _ in range(150):
        start = choice.randrange(len(values) + 1)
        records, size = choice.choice([1, 3, 50, 1000]), choice.choice([1, 30, 500, 100_000])
        fetched = await gateway.fetch(start, records=records, bytes_max=size)
        expected: list[bytes] = []
        for value in values[start : start + records]:
            if expected and sum(map(len, expected)) + len(value) > size:
                break
            expected.append(value)
        assert values_of(fetched) == expected
        assert offsets_of(fetched) == list(range(start, start + len(expected)))
        assert fetched.records.next_offset == start + len(expected)
        assert fetched.high_watermark == len(values)
        assert fetched.records.size_bytes == sum(map(len, expected))
    assert values_of(await gateway.fetch(0, partition=1, records=1000)) == [b"other"] * 12


async def test_tail_reads_ask_the_store_for_no_segment(gateway: Gateway) -> None:
    """What was just written is served from memory: at most the log is looked at."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a", b"b"])
    gateway.store.requests.clear()
    await gateway.fetch(0)
    assert not [key for _, key in gateway.store.requests if "/segments/" in key]
    gateway.forget_tail()
    await gateway.fetch(0)
    assert [key for _, key in gateway.store.requests if "/segments/" in key]


async def test_old_reads_do_not_evict_the_tail() -> None:
    """A reader that catches up leaves the newest records in memory (what went wrong for Inkless)."""
    gateway = make_gateway(tail_cache_bytes_max=40_000)
    topic = await gateway.topic(flush_ms=0)
    for _ in range(30):
        await gateway.append(topic, [b"x" * 1000] * 5)
    newest = gateway.engine._tail.size_bytes
    offset = 0
    while offset < 150:
        offset = (await gateway.fetch(offset, records=20)).records.next_offset
    assert gateway.engine._tail.size_bytes == newest
    gateway.store.requests.clear()
    await gateway.fetch(149)
    assert not [key for _, key in gateway.store.requests if "/segments/" in key]
    await gateway.engine.drain()


async def test_a_missing_segment_is_named_and_others_are_read(gateway: Gateway) -> None:
    """A segment that is gone: ``CORRUPT_SEGMENT`` with its path for what it held; the rest of the topic is readable."""
    topic = await gateway.topic(flush_ms=0, partition_count=2)
    for partition in (0, 1):
        await gateway.append(topic, [b"%d" % partition], partition)
    await gateway.append(topic, [b"again"], 0)
    gateway.forget_tail()
    found = topic.state.manifest.find(0, 0)
    assert found is not None
    lost = found.segment
    gateway.store.objects.delete(f"topics/t/{lost.path}")
    with pytest.raises(CorruptData) as caught:
        await gateway.fetch(0)
    assert caught.value.fields["segment"] == lost.path
    assert values_of(await gateway.fetch(0, partition=1)) == [b"1"]
    assert values_of(await gateway.fetch(1)) == [b"again"]


async def test_a_table_of_a_later_release_is_neither_read_nor_written(gateway: Gateway) -> None:
    """``UNSUPPORTED_TABLE`` for fetches, appends and polls, also of what is in memory; other topics go on, and so does this one
    once that commit is gone."""
    topic, other = await gateway.topic(flush_ms=0), await gateway.topic("other", flush_ms=0)
    await gateway.append(topic, [b"a"])
    later = b'{"commitInfo":{"engineInfo":"tidelog/99"}}\n{"protocol":{"minReaderVersion":3,"minWriterVersion":7}}'
    key = layout.commit_key("t", topic.state.version + 1)
    gateway.store.objects.put_if_absent(key, later)
    for act in (lambda: gateway.fetch(0), lambda: gateway.append(topic, [b"b"]), lambda: gateway.fetch("latest")):
        with pytest.raises(UnsupportedTable, match="3/7") as refused:
            await act()
        assert refused.value.code is ErrorCode.UNSUPPORTED_TABLE
    await gateway.append(other, [b"b"])
    assert values_of(await gateway.fetch(0, topic="other")) == [b"b"]
    gateway.store.objects.delete(key)
    await gateway.append(topic, [b"c"])
    assert values_of(await gateway.fetch(0)) == [b"a", b"c"]


async def test_a_topic_that_another_program_wrote_goes_on_and_is_put_back(gateway: Gateway) -> None:
    """Reads and appends give what they gave; the gateway names the file again, tells of it, and counts it."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a"])
    told: list[str] = []
    gateway.engine.foreign.tell = lambda name, commit: told.append(f"{name}: {commit}")
    (segment,) = topic.log.state.manifest.segments()
    foreign = (
        b'{"commitInfo":{"engineInfo":"Else/1","operation":"DELETE"}}\n{"remove":{"path":"%s"}}' % segment.path.encode()
    )
    version = topic.log.state.version + 1
    gateway.store.objects.put_if_absent(layout.commit_key("t", version), foreign)
    assert values_of(await gateway.fetch(0)) == [b"a"]
    await gateway.append(topic, [b"b"])
    assert values_of(await gateway.fetch(0)) == [b"a", b"b"]
    await gateway.engine.foreign.drain()
    assert topic.log.state.foreign.is_reverted
    commits = [gateway.store.objects.get(layout.commit_key("t", version + more)) for more in (1, 2)]
    (restored,) = [commit for commit in commits if b'"RESTORE"' in commit]
    assert b'"add":{"path":"%s"' % segment.path.encode() in restored
    assert told == [f"t: version {version}: DELETE by Else/1"]
    assert topic.state.foreign.last is not None
    assert topic.state.foreign.last.version == version


async def test_offsets_outside_of_the_log_say_where_it_is(gateway: Gateway) -> None:
    """410 below the log start, 416 beyond the high watermark, both with the log's ends; the end itself is in range."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a", b"b", b"c"])
    await gateway.engine.administration.delete_records("t", {0: 2})
    for offset, status in ((1, 410), (4, 416)):
        with pytest.raises(OffsetOutOfRange) as caught:
            await gateway.fetch(offset)
        assert caught.value.status == status
        assert caught.value.fields["log_start_offset"] == 2
        assert caught.value.fields["high_watermark"] == 3
    assert values_of(await gateway.fetch(3)) == []
    assert values_of(await gateway.fetch("earliest")) == [b"c"]
    assert values_of(await gateway.fetch("latest")) == []


async def test_what_is_deleted_meanwhile_is_refused_not_skipped(gateway: Gateway) -> None:
    """A read that began before a delete-records answers what is left from its offset on, or 410: never a later record."""
    topic = await gateway.topic(flush_ms=0)
    for value in (b"a", b"b", b"c", b"d"):
        await gateway.append(topic, [value])
    gateway.forget_tail()
    before, reading = topic.state, gateway.engine.reader
    limits = ReadLimits(records_max=10, bytes_max=1000)
    for log_start in (2, 4):
        await gateway.engine.administration.delete_records("t", {0: log_start})
        with pytest.raises(OffsetOutOfRange) as caught:
            await reading.read(topic, before, 0, log_start - 1, limits)
        assert (caught.value.status, caught.value.fields["log_start_offset"]) == (410, log_start)
        assert (await reading.read(topic, before, 0, log_start, limits)).record_count == 4 - log_start


async def test_a_segment_that_is_cleaned_away_meanwhile_is_not_skipped(gateway: Gateway) -> None:
    """Records that a read was about to get, deleted and cleaned away before it got them, are 410 and no damage; what the
    same read has already is answered."""
    topic = await gateway.topic(flush_ms=0)
    for value in (b"a", b"b", b"c"):
        await gateway.append(topic, [value])
    gateway.forget_tail()
    before, reading = topic.state, gateway.engine.reader
    limits = ReadLimits(records_max=10, bytes_max=1000)
    found = before.manifest.find(0, 1)
    assert found is not None
    lost = f"topics/t/{found.segment.path}"
    with Gate(gateway.store, "get", lost) as gate:
        reads = [asyncio.create_task(reading.read(topic, before, 0, start, limits)) for start in (0, 1)]
        await gate.wait_until_reached()
        await gateway.engine.administration.delete_records("t", {0: 2})
        gateway.store.objects.delete(lost)
        gate.open()
        first, second = await asyncio.gather(*reads, return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert (first.next_offset, first.record_count, first.is_full) == (1, 1, True)
    assert isinstance(second, OffsetOutOfRange), second
    assert second.status == 410


async def test_a_time_is_found_in_offset_order(gateway: Gateway) -> None:
    """The first record, in offset order, whose timestamp is at least T; from the log start on; None when there is none."""
    topic = await gateway.topic(flush_ms=0)
    times = [50, 10, 70, 30, 70, 90, 20]
    for time_ms in times:
        batch = batch_of(topic, [b"x"], timestamp_ms=time_ms)
        await topic.appending.await_acknowledgement(topic.submit(batch, None))
    for start in (0, 3):
        await gateway.engine.administration.delete_records("t", {0: start})
        for wanted in (0, 10, 31, 60, 70, 71, 90, 91):
            expected = next((i for i in range(start, len(times)) if times[i] >= wanted), None)
            found = await gateway.engine.reader.offset_of_timestamp(topic, topic.state, 0, wanted)
            assert found == expected, (start, wanted)


async def test_a_store_that_is_down_is_said_to_be(gateway: Gateway) -> None:
    """503, not 500 and no empty answer: an empty one would say that there is nothing to read."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a"])
    gateway.forget_tail()
    gateway.store.go_down()
    with pytest.raises(BackOff):
        await gateway.fetch(0)
    gateway.store.come_back()
    assert values_of(await gateway.fetch(0)) == [b"a"]


async def test_the_time_for_old_records_is_the_fetchs_not_each_partitions() -> None:
    """Time is over: the first record comes all the same, no partition after it costs the store a read, and nothing is skipped."""
    partitions = range(20)
    gateway = make_gateway(cold_read_ms_max=-1)
    topic = await gateway.topic(flush_ms=0, partition_count=len(partitions))
    for partition in partitions:
        await gateway.append(topic, [b"%d" % partition], partition)
    gateway.forget_tail()
    positions = dict.fromkeys(partitions, 0)
    found: list[bytes] = []
    for _ in partitions:
        reads = gateway.store.calls["get_range"]
        wanted = [FetchFrom(topic="t", partition=number, offset=offset) for number, offset in positions.items()]
        answer = await gateway.fetch_all(wanted, wait_ms=10_000)
        answer.reservation.release()
        assert gateway.store.calls["get_range"] - reads <= 2, "one segment: its footer and its row group"
        for part in answer.parts:
            assert isinstance(part, Fetched)
            positions[part.partition] = part.records.next_offset
            found += values_of(part)
    assert found == [b"%d" % partition for partition in partitions]


async def test_a_hole_that_nobody_made_is_not_passed_over(gateway: Gateway) -> None:
    """Acknowledged records that the manifest lost, in the middle and at the end: the reader is told, not taken behind them."""
    topic = await gateway.topic(flush_ms=0)
    for value in (b"a", b"b", b"c"):
        await gateway.append(topic, [value])
    gateway.forget_tail()
    _, middle, last = [segment.path for segment in topic.state.manifest]
    for lost, offset in ((middle, 1), (last, 2)):
        topic.state.manifest.remove(lost)
        with pytest.raises(CorruptData, match=rf"no records at offsets \[{offset}, "):
            await gateway.fetch(offset)
    assert values_of(await gateway.fetch(0)) == [b"a"]


@pytest.mark.parametrize(("lost", "named"), [([0, 1, 2], 0), ([1], 1), ([0, 1], 0)])
async def test_a_run_without_some_of_its_records_is_not_passed_over(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, lost: list[int], named: int
) -> None:
    """A segment that gives no record at an offset, against the log, ends the read there: the reader is told."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a", b"b", b"c"])
    gateway.forget_tail()
    read = SegmentReader.read

    def without(*arguments: Any, **limits: Any) -> pa.Table:
        records = read(*arguments, **limits)
        return records.filter(pc.invert(pc.is_in(records.column("offset"), pa.array(lost, pa.int64()))))

    monkeypatch.setattr(SegmentReader, "read", without)
    with pytest.raises(CorruptData, match=rf"no records at offsets \[{named}, "):
        await gateway.fetch(0)
