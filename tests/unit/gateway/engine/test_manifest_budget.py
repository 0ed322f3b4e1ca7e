"""Memory for manifests has a bound: past it records are refused, and nothing else is, until maintenance has caught up."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from typing import Any

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from gateway.engine.partition_streams import StreamRecords, StreamWoken
from gateway.engine.waiters import Wakeup
from log_format.clock import SystemClock
from log_format.errors import BackOff, ErrorCode, UnknownTopic
from log_format.manifest.manifest import Manifest
from tests.support.all_allowed import all_allowed
from tests.support.collected_events import CollectedEvents
from tests.support.engine import Gateway, batch_of, make_gateway, values_of

BUDGET = 4_000
"""Bytes: the share of one topic is some twenty segments."""
ENOUGH = 60
LOOKS = -1
"""A refusal looks at the log each time."""
FOR_EVER: dict[str, Any] = {"retention_ms": -1, "flush_ms": 0}


async def fill(gateway: Gateway, name: str = "t", count: int = ENOUGH) -> BackOff:
    """Append one record after the other until the gateway refuses one."""
    for number in range(count):
        try:
            topic = await gateway.engine.open_topic(name)
        except BackOff as refusal:
            return refusal
        await gateway.append(topic, [b"%d" % number])
    raise AssertionError("nothing was refused")


def maintain(gateway: Gateway) -> None:
    """A round of maintenance, as another process would do it."""
    store = gateway.store.objects
    policy = Policy(flushed_min=2, sources_max=4, fan_in=2)
    Job(
        store=store, workers=LocalWorkers(store), clock=SystemClock(), report=CollectedEvents(), policy=policy
    ).run_round(collect=False)


async def test_past_the_budget_records_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The refusal is one of the moment, says what to run and that nothing happened, and nothing did; it is counted and logged."""
    caplog.set_level(logging.ERROR, logger="gateway.maintenance")
    gateway = make_gateway(manifest_bytes_max=BUDGET, log_poll_ms=LOOKS)
    topic = await gateway.topic(**FOR_EVER)
    refusal = await fill(gateway)
    assert (refusal.code, refusal.retryable, refusal.may_have_happened) == (ErrorCode.OVERLOADED, True, False)
    for words in ("Maintenance is behind", "`tidelog maintain`", "Nothing was stored"):
        assert words in refusal.detail
    before = topic.log.refresh()
    await fill(gateway)
    assert topic.log.refresh().version == before.version
    assert topic.state.manifest.memory_bytes <= BUDGET
    metrics = gateway.engine._metrics
    assert metrics.manifest_refusals._value.get() == 2
    assert gateway.engine.topics.manifest_bytes == topic.state.manifest.memory_bytes
    await gateway.engine.drain()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "gateway.maintenance"]
    assert "topic t" in line
    assert "tidelog maintain" in line


async def test_maintenance_lets_records_come_again() -> None:
    """The next request notices what another process merged, without a restart and without a reader."""
    gateway = make_gateway(manifest_bytes_max=BUDGET, log_poll_ms=LOOKS)
    topic = await gateway.topic(**FOR_EVER)
    await fill(gateway)
    written = topic.state.high_watermark(0)
    await asyncio.to_thread(maintain, gateway)
    again = await gateway.engine.open_topic("t")
    assert again is topic
    await gateway.append(again, [b"again"])
    values = values_of(await gateway.fetch(records=ENOUGH * 2))
    assert values == [*(b"%d" % number for number in range(written)), b"again"]
    await gateway.engine.drain()


@pytest.mark.parametrize("way", ["delete records", "delete topic", "retention"])
async def test_everything_else_goes_on(way: str) -> None:
    """Reading, deleting records, altering and deleting the topic are not refused; what they free is free at once."""
    gateway = make_gateway(manifest_bytes_max=BUDGET, log_poll_ms=LOOKS)
    topic = await gateway.topic(**FOR_EVER)
    await fill(gateway)
    written = topic.state.high_watermark(0)
    gateway.forget_tail()
    assert len(values_of(await gateway.fetch(records=ENOUGH))) == written
    administration = gateway.engine.administration
    if way == "delete topic":
        await administration.delete("t")
        with pytest.raises(UnknownTopic):
            await gateway.engine.open_topic("t")
        await gateway.topic(**FOR_EVER)
    elif way == "delete records":
        await administration.delete_records("t", {0: written - 1})
    else:
        await administration.alter("t", None, {"retention.ms": 1})
        await asyncio.to_thread(maintain, gateway)
    await gateway.append(await gateway.engine.open_topic("t"), [b"again"])
    await gateway.engine.drain()


async def test_decided_transactions_are_finished() -> None:
    """A transaction that was staged before its topic was full comes to its end all the same."""
    gateway = make_gateway(manifest_bytes_max=BUDGET, log_poll_ms=LOOKS)
    topic = await gateway.topic(**FOR_EVER)
    row = await gateway.engine.transactions.begin("mine", 60_000)
    batch = batch_of(topic, [b"staged"])
    await gateway.engine.transactions.stage(row.transaction_id, "t", batch, None)
    await fill(gateway)
    done = await gateway.engine.transactions.commit(row.transaction_id, all_allowed)
    assert done.state == "committed"
    last = topic.state.high_watermark(0) - 1
    assert values_of(await gateway.fetch(last)) == [b"staged"]
    await gateway.engine.drain()


async def test_one_topic_leaves_room_for_others() -> None:
    """A topic without maintenance stops at its share; another goes on beside it, and it stays in memory."""
    gateway = make_gateway(manifest_bytes_max=80_000, log_poll_ms=LOOKS)
    await gateway.topic(**FOR_EVER)
    await fill(gateway, count=1_000)
    grown = gateway.engine.topics.get("t")
    other = await gateway.topic("other", **FOR_EVER)
    await gateway.append(other, [b"x"])
    assert gateway.engine.topics.get("t") is grown
    with pytest.raises(BackOff, match="Maintenance is behind"):
        await gateway.engine.open_topic("t")
    await gateway.engine.drain()


async def test_idle_topics_go_first() -> None:
    """Memory that only idle topics hold is no reason to refuse: the least recently used are forgotten."""
    gateway = make_gateway(manifest_bytes_max=30_000, log_poll_ms=LOOKS)
    topics = [await gateway.topic(f"t{number}", **FOR_EVER) for number in range(3)]
    for topic in topics:
        for number in range(100):
            await gateway.append(await gateway.engine.open_topic(topic.name), [b"%d" % number])
    assert {topic.name for topic in gateway.engine.topics} == {"t1", "t2"}
    loaded = [topic.state.manifest.memory_bytes for topic in gateway.engine.topics]
    assert gateway.engine.topics.manifest_bytes == sum(loaded)
    await gateway.append(await gateway.engine.open_topic("t0"), [b"back"])
    await gateway.engine.drain()


async def test_what_others_append_counts() -> None:
    """A topic that grows by another gateway's commits while a fetch only waits for its records is counted as it grows."""
    gateway = make_gateway(manifest_bytes_max=BUDGET, log_poll_ms=5)
    other = make_gateway(objects=gateway.store.objects)
    topic = await gateway.topic(**FOR_EVER)
    there = await other.engine.open_topic("t")
    with gateway.engine.streams.follow(topic, 0, 0, gateway.memory) as stream:
        seen = 0
        while seen < ENOUGH:
            await other.append(there, [b"x"])
            while isinstance(followed := await stream.next(), StreamWoken):
                pass
            assert isinstance(followed, StreamRecords)
            seen += followed.records.record_count
            followed.reservation.release()
        assert gateway.engine.topics.manifest_bytes == topic.state.manifest.memory_bytes > BUDGET
        with pytest.raises(BackOff, match="Maintenance is behind"):
            await gateway.engine.open_topic("t")
    for one in (gateway, other):
        await one.engine.drain()


async def test_what_is_forgotten_is_not_counted(gateway: Gateway) -> None:
    """Topics that were deleted or never were leave nothing behind in the sum."""
    for number in range(3):
        topic = await gateway.topic(f"t{number}", **FOR_EVER)
        await gateway.append(topic, [b"x"])
        await gateway.engine.administration.delete(topic.name)
        with pytest.raises(UnknownTopic):
            await gateway.engine.open_topic(topic.name)
    assert gateway.engine.topics.manifest_bytes == 0
    assert Manifest().memory_bytes == 0


async def test_topics_that_were_only_made_count() -> None:
    """Partitions without a record take memory, too: idle topics are forgotten for it."""
    gateway = make_gateway(manifest_bytes_max=600_000, log_poll_ms=LOOKS)
    topics = gateway.engine.topics
    for number in range(5):
        await gateway.engine.administration.create(f"t{number}", 10_000, gateway.engine.administration.parse_config({}))
    assert len(topics) == 2
    await gateway.engine.drain()


async def test_no_topic_is_opened_beside_those_in_use_past_the_budget() -> None:
    """Topics that a fetch waits for stay. While they take all the memory that topics may, others can only be mended."""
    gateway = make_gateway(manifest_bytes_max=400_000, log_poll_ms=LOOKS)
    engine = gateway.engine
    config = engine.administration.parse_config({})
    await engine.administration.create("other", 1, config)
    for number in range(2):
        await engine.administration.create(f"large{number}", 10_000, config)
    assert "other" not in {topic.name for topic in engine.topics}
    with ExitStack() as waiting:
        for number in range(2):
            topic = await engine.topics.fresh(f"large{number}", engine.clock.monotonic_ms())
            waiting.enter_context(topic.waiters.register((0,), Wakeup()))
        with pytest.raises(BackOff, match="in use take"):
            await engine.topics.fresh("other", engine.clock.monotonic_ms())
        await engine.administration.delete("other")
    await engine.administration.create("another", 1, config)
    await engine.drain()
