"""A member that is not asked for records leaves its group, and rejoins with the next call, as in Kafka."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until
from tidelog import Consumer, Record, TopicPartition, aio
from tidelog.consumer.membership import Membership

INTERVAL_MS = 300


def _member(gateway: FakeGateway, **settings: Any) -> Consumer:
    return Consumer(
        "t", bootstrap_servers=gateway.url, group="g",
        **{"enable_auto_commit": False, "max_poll_interval_ms": INTERVAL_MS, **settings},
    )  # fmt: skip


def _read(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        found += consumer.poll(100, count - len(found))
    return found


def _membership(consumer: Consumer) -> Membership:
    """To be looked at: what a consumer is asked counts as asking for records."""
    assert consumer._group is not None
    return consumer._group.membership


def test_a_consumer_that_never_polls_again_leaves(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    """Its partitions are others' to read; a clear line says why; what it holds is handed out no more, and the next poll joins."""
    gateway.fill("t", 100)
    lost: list[TopicPartition] = []
    with caplog.at_level(logging.WARNING, "tidelog.consumer"), _member(gateway, on_lost=lost.extend) as consumer:
        assert len(_read(consumer, 10)) == 10
        until(lambda: "leave m0" in gateway.groups["g"].events)
        assert "max_poll_interval_ms (300 ms)" in caplog.text
        assert "rejoins" in caplog.text
        assert consumer.ready() == []
        assert lost == []
        again = _read(consumer, 10)
        assert lost == [TopicPartition("t", 0)]
        assert consumer.group_metadata().member_id == "m1"
        assert again[0].offset == 0, "nothing was committed"


def test_a_consumer_that_is_asked_stays(gateway: FakeGateway) -> None:
    """By polls that wait for longer than the interval, by polls of what is here, and by each step of an iteration."""
    gateway.fill("t", 30)
    with _member(gateway) as consumer:
        assert consumer.poll(3 * INTERVAL_MS, 30)
        assert consumer.poll(3 * INTERVAL_MS) == []
        consumer.seek_to_beginning()
        records = iter(consumer)
        for _ in range(15):
            next(records)
            time.sleep(INTERVAL_MS / 1000 / 5)
        for _ in range(10):
            consumer.poll(0, 1)
            time.sleep(INTERVAL_MS / 1000 / 5)
        assert [event for event in gateway.groups["g"].events if event.startswith(("join", "leave"))] == ["join m0"]


def test_a_static_member_only_falls_silent(gateway: FakeGateway) -> None:
    """As in Kafka: its session ends, unless it is started again within that."""
    gateway.fill("t", 100)
    with _member(gateway, instance_id="i") as consumer:
        _read(consumer, 10)
        until(lambda: _membership(consumer).has_lost_membership)
        assert not any(event.startswith("leave") for event in gateway.groups["g"].events)


async def test_from_asyncio(gateway: FakeGateway) -> None:
    """The same of ``tidelog.aio``."""
    gateway.fill("t", 100)
    async with aio.Consumer(
        "t", bootstrap_servers=gateway.url, group="g", max_poll_interval_ms=INTERVAL_MS, enable_auto_commit=False
    ) as consumer:
        assert await consumer.poll(5_000, 10)
        until(lambda: "leave m0" in gateway.groups["g"].events)
        while not (records := await consumer.poll(1_000, 10)):
            pass
        assert records[0].offset == 0
        assert consumer.group_metadata().member_id == "m1"


def test_the_interval_must_be_positive(dead_url: str) -> None:
    """0 would be a consumer that leaves at once."""
    with pytest.raises(ValueError, match="max_poll_interval_ms"):
        Consumer("t", bootstrap_servers=dead_url, group="g", max_poll_interval_ms=0)
