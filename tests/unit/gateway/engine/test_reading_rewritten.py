"""Readers beside maintenance: segments are replaced, and the old ones deleted, during a read."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import replace
from typing import Any

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from gateway.engine.read_records import ReadLimits
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from tests.support.collected_events import CollectedEvents
from tests.support.engine import Gateway, make_gateway, offsets_of, values_of
from tests.support.faulty_store import Gate

LIMITS = ReadLimits(records_max=100, bytes_max=100_000)
VALUES = [b"v%d" % number for number in range(11)]


async def filled(segments_behind: int = 1_000) -> tuple[Any, Any]:
    gateway = make_gateway(segments_behind=segments_behind)
    topic = await gateway.topic(flush_ms=0, retention_ms=-1)
    for value in VALUES:
        await gateway.append(topic, [value])
    gateway.forget_tail()
    return gateway, topic


def maintain(gateway: Gateway, **policy: Any) -> None:
    """Another process merges everything, compacts keys, and at once deletes what was flushed, but for the newest."""
    objects = gateway.store.objects
    job = Job(
        store=objects,
        workers=LocalWorkers(objects),
        clock=SystemClock(),
        report=CollectedEvents(),
        policy=replace(Policy(flushed_min=2, sources_max=4, fan_in=2), **policy),
        new_id=lambda: uuid.uuid4().hex,
    )
    assert job.run_round(collect=False).rewrites
    listed = {f"topics/t/{segment.path}" for segment in TopicLog(objects, "t", SystemClock()).refresh().manifest}
    for info in list(objects.list("topics/t/segments/")):
        if info.key not in listed:
            objects.delete(info.key)


async def test_replaced_segments_are_read_by_who_knew_the_old_ones() -> None:
    """Every record at its offset, from any offset, by offset and by time."""
    gateway, topic = await filled()
    before = topic.state
    await asyncio.to_thread(maintain, gateway)
    for offset in range(len(VALUES)):
        found = await gateway.engine.reader.read(topic, before, 0, offset, LIMITS)
        assert [value for table in found.tables for value in table["value"].to_pylist()] == VALUES[offset:]
        assert found.next_offset == len(VALUES)
    assert await gateway.engine.reader.offset_of_timestamp(topic, before, 0, 0) == 0
    assert values_of(await gateway.fetch(0)) == VALUES
    await gateway.engine.drain()


async def test_replaced_segments_of_a_topic_at_a_journal_are_read() -> None:
    """Fetches look at the journal alone while it has the topic open. A segment that is gone makes them look at the topic."""
    gateway, topic = await filled()
    await gateway.engine.administration.alter("t", None, {"commit.mode": "shared"})
    await gateway.append(topic, [b"last"])
    gateway.forget_tail()
    assert values_of(await gateway.fetch(11)) == [b"last"]
    await asyncio.to_thread(maintain, gateway)
    assert values_of(await gateway.fetch(0)) == [*VALUES, b"last"]
    await gateway.engine.drain()


async def test_a_segment_that_goes_while_it_is_read_is_read_from_its_successor() -> None:
    """Neither an error nor a gap, also when the log was loaded anew meanwhile; and nothing beyond what the read began with."""
    gateway, topic = await filled()
    before = topic.state
    path = before.manifest.segments()[0].path
    with Gate(gateway.store, "get", path) as gate:
        read = asyncio.create_task(gateway.engine.reader.read(topic, before, 0, 0, LIMITS))
        await gate.wait_until_reached()
        await gateway.append(topic, [b"later"])
        await asyncio.to_thread(maintain, gateway)
        await asyncio.to_thread(topic.log.reload)
        assert topic.state.manifest is not before.manifest
        gate.open()
        found = await read
    assert [value for table in found.tables for value in table["value"].to_pylist()] == VALUES
    assert found.next_offset == len(VALUES)
    await gateway.engine.drain()


async def test_what_key_compaction_took_is_not_served_from_memory() -> None:
    """An erased value is gone for readers of the gateway that wrote it, too, on a quiet topic, and so is its tombstone in time.

    Both gateways give what the table has: the one whose tail holds the records as they were sent, and the one that had read the
    older ones ahead.
    """
    writer = make_gateway()
    topic = await writer.topic(flush_ms=0, cleanup_policy="compact", delete_retention_ms=0)
    for number in range(8):
        values = [b"secret" if number == 0 else None, *[b"%d %d" % (number, key) for key in range(3)]]
        await writer.append(topic, values, keys=[b"erased", b"a", b"b", b"c"])
    reader = make_gateway(objects=writer.store.objects)
    for _ in range(3):
        await reader.fetch(0, records=1)  # the rest of its row group is read ahead
        await asyncio.to_thread(maintain, writer, dirty_ratio=0.01, target_bytes=4000)
        stranger = make_gateway(objects=writer.store.objects)
        expected = await stranger.fetch(0, records=1000)
        assert b"secret" not in values_of(expected)
        for gateway in (writer, reader):
            found = await gateway.fetch(0, records=1000)
            assert offsets_of(found) == offsets_of(expected)
            assert values_of(found) == values_of(expected)
        await stranger.engine.drain()
        for number in range(4):
            await writer.append(topic, [b"%d" % number, b"more"], keys=[b"a", b"b"])
    assert None not in values_of(expected), "the tombstone never went"
    await writer.engine.drain()
    await reader.engine.drain()


async def test_what_is_above_the_compacted_offsets_is_still_served_from_memory(gateway: Gateway) -> None:
    """Key compaction costs readers of the newest records nothing."""
    topic = await gateway.topic(flush_ms=0, cleanup_policy="compact")
    for number in range(8):
        await gateway.append(topic, [b"%d" % number], keys=[b"a"])
    await asyncio.to_thread(maintain, gateway, dirty_ratio=0.01, target_bytes=4000)
    await gateway.append(topic, [b"newest"], keys=[b"a"])
    await gateway.fetch("latest")
    compacted_to = int(topic.state.keys_compacted[0])
    assert 0 < compacted_to <= 8
    gateway.store.requests.clear()
    assert values_of(await gateway.fetch(8)) == [b"newest"]
    assert not [key for _, key in gateway.store.requests if key.endswith(".parquet")]


async def test_a_topic_that_nobody_looks_after_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once in the log, and in the metrics until it is looked after."""
    caplog.set_level(logging.WARNING)
    gateway, topic = await filled(segments_behind=5)
    registry = gateway.engine.topics._metrics.topics_behind
    assert registry.collect()[0].samples[0].value == 1
    said = [record for record in caplog.records if record.name == "gateway.maintenance"]
    assert len(said) == 1
    assert "is maintenance running" in said[0].getMessage()
    await asyncio.to_thread(maintain, gateway)
    await gateway.fetch(0)
    assert registry.collect()[0].samples[0].value == 0
    assert topic.state.manifest.segment_count() < 5
    await gateway.engine.drain()
