"""A gateway at a topic whose rows stay in its table after they have left its log."""

from __future__ import annotations

import uuid

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.clock import SystemClock
from log_format.errors import OffsetOutOfRange
from tests.support.collected_events import CollectedEvents
from tests.support.engine import Gateway, make_gateway, offsets_of
from tests.support.faulty_store import FaultyStore
from tests.support.table_rows import rows_by_log

HOUR = 3_600_000


def maintain(store: FaultyStore) -> None:
    """A round that merges nothing."""
    job = Job(
        store=store,
        workers=LocalWorkers(store),
        clock=SystemClock(),
        report=CollectedEvents(),
        policy=Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**15),
        new_id=lambda: uuid.uuid4().hex,
    )
    assert job.run_round(collect=False).failed_topics == 0


async def archived(gateway: Gateway, count: int = 8) -> None:
    """Topic ``t`` with so many archived segments, and its newest one, whose records are too old, too."""
    topic = await gateway.topic(retention_ms=HOUR, table_retention_ms=-1)
    for number in range(count + 1):
        await gateway.append(topic, [b"%d" % number])
    maintain(gateway.store)


async def test_the_log_is_what_consumers_see() -> None:
    """Below the log start nothing can be read, at a gateway that was there and at one that has just started; each row is in the
    table once."""
    gateway = make_gateway()
    await archived(gateway)
    for one in (gateway, make_gateway(objects=gateway.store.objects)):
        assert offsets_of(await one.fetch()) == []
        with pytest.raises(OffsetOutOfRange):
            await one.fetch(3)
        state = (await one.engine.administration.page("", "", 10)).topics[0]
        assert (state.manifest.segment_count(), state.archive.segment_count) == (1, 8)
        await one.engine.drain()
    rows = rows_by_log(gateway.store, "t", SystemClock())
    assert [offset for _, offset, _, _ in rows] == list(range(9))


async def test_a_topic_is_deleted_with_its_archive() -> None:
    """Its archive leaves the table in several commits, then the topic; what is made under its name has nothing of it."""
    gateway = make_gateway(removes_max=3)
    await archived(gateway)
    before = (await gateway.engine.open_topic("t")).state.version
    await gateway.engine.administration.delete("t")
    assert rows_by_log(gateway.store, "t", SystemClock()) == []
    topic = await gateway.topic()
    assert topic.state.archive.segment_count == 0
    assert topic.state.version >= before + 3
    await gateway.engine.drain()


async def test_deleted_records_stay_in_the_table() -> None:
    """The log start moves at once; the gateway removes no row, now or in the background."""
    gateway = make_gateway()
    topic = await gateway.topic(retention_ms=-1, table_retention_ms=-1)
    for number in range(4):
        await gateway.append(topic, [b"%d" % number])
    assert await gateway.engine.administration.delete_records("t", {0: 3}) == {0: 3}
    await gateway.engine.drain()
    assert [offset for _, offset, _, _ in rows_by_log(gateway.store, "t", SystemClock())] == [0, 1, 2, 3]
