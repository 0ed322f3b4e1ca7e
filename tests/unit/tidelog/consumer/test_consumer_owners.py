"""A consumer asks the preferred gateways for what it reads and for its group, and any other when those are away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from log_format.cluster.preferred import preferred_gateway
from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until
from tidelog import Consumer, Record, TopicPartition

BOTH = ("one", "two")
GROUP = next(name for name in map("g{}".format, range(99)) if preferred_gateway(f"groups/{name}", BOTH) == "two")
TOPIC = next(name for name in map("t{}".format, range(99)) if preferred_gateway(name, BOTH) == "two")
OTHERS_TOPIC = next(name for name in map("t{}".format, range(99)) if preferred_gateway(name, BOTH) == "one")


def fill(gateway: FakeGateway, topic: str, count: int, partition_count: int = 1, **config: Any) -> None:
    made = gateway.create(topic, partition_count, **config)
    for number in range(partition_count):
        append(gateway, topic, count, number)
    assert len(made.records[0]) == count


def append(gateway: FakeGateway, topic: str, count: int, partition: int = 0) -> None:
    with gateway.changed:
        records = gateway.topics[topic].records[partition]
        records += [Record(topic, partition, at, at, None, b"") for at in range(len(records), len(records) + count)]
        gateway.changed.notify_all()


def fetches(gateway: FakeGateway, partition: int | None = None) -> int:
    where = "" if partition is None else f"/partitions/{partition}"
    return int(gateway.count(f"{where}/records$")) + (int(gateway.count("/fetch$")) if partition is None else 0)


def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    end = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < end
        found += [record.offset for record in consumer.poll(200)]
    return found


def die(gateway: FakeGateway) -> None:
    """From now on every connection ends before an answer."""
    gateway.misbehave("", *[gateway.lose(done=False)] * 10_000)


def learned(consumer: Consumer, asks: Callable[[], object]) -> None:
    """Poll until the gateways are known: then the preferred one is asked."""
    end = time.monotonic() + 60
    while not asks():
        assert time.monotonic() < end
        assert consumer.poll(20) == []


def test_records_are_read_from_the_preferred_gateway(two_gateways: tuple[FakeGateway, FakeGateway]) -> None:
    """From the moment in which the gateways are known; when the preferred one is gone, from the other one, none skipped."""
    given, best = two_gateways
    fill(given, TOPIC, 10)
    with Consumer(TOPIC, bootstrap_servers=given.url, fetch_max_bytes=1) as consumer:
        assert read(consumer, 10) == list(range(10))
        learned(consumer, lambda: fetches(best))
        before = fetches(given)
        append(given, TOPIC, 10)
        assert read(consumer, 10) == list(range(10, 20))
        assert fetches(given) == before
        die(best)
        append(given, TOPIC, 10)
        assert read(consumer, 10) == list(range(20, 30))
        assert fetches(given) > before


def test_of_several_topics_the_one_with_most_partitions_decides(two_gateways: tuple[FakeGateway, FakeGateway]) -> None:
    """One long poll waits for all of them: at the gateway that has the most of it in memory."""
    given, best = two_gateways
    fill(given, OTHERS_TOPIC, 0, 1)
    fill(given, TOPIC, 0, 2)
    with Consumer(OTHERS_TOPIC, TOPIC, bootstrap_servers=given.url) as consumer:
        learned(consumer, lambda: best.count("/fetch$"))
        before = fetches(given)
        append(given, OTHERS_TOPIC, 1)
        assert read(consumer, 1) == [0]
        assert fetches(given) == before


def test_a_partition_is_read_from_its_owner(two_gateways: tuple[FakeGateway, FakeGateway]) -> None:
    """With ``owners`` partitions belong to gateways in turn, as the topic's description says: no gateway is asked for
    another's.
    """
    given, best = two_gateways
    fill(given, TOPIC, 4, 2, owners=2)
    places = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    with Consumer(bootstrap_servers=given.url) as consumer:
        for place, owner, other in ((places[0], best, given), (places[1], given, best)):
            consumer.assign([place])
            consumer.seek_to_end(place)
            learned(consumer, lambda place=place, owner=owner: fetches(owner, place.partition))  # type: ignore[misc]
            before = fetches(other, place.partition)
            append(given, TOPIC, 1, place.partition)
            assert read(consumer, 1) == [4]
            assert fetches(other, place.partition) == before


@pytest.mark.parametrize("topic", [TOPIC, OTHERS_TOPIC])
def test_a_member_talks_to_the_coordinator(two_gateways: tuple[FakeGateway, FakeGateway], topic: str) -> None:
    """Heartbeats and commits, wherever the records are; to the other gateway when the coordinator is gone, and stays a member."""
    given, coordinator = two_gateways
    fill(given, topic, 5)
    settings: dict[str, Any] = {"enable_auto_commit": False, "session_timeout_ms": 60_000}
    with Consumer(topic, bootstrap_servers=given.url, group=GROUP, **settings) as consumer:
        assert read(consumer, 5) == list(range(5))
        until(lambda: coordinator.count("/heartbeat$"))
        before = given.count("/groups/")
        consumer.commit()
        assert given.groups[GROUP].offsets == {(topic, 0): 5}
        assert given.count("/groups/") == before
        die(coordinator)
        until(lambda: given.count("/heartbeat$"))
        append(given, topic, 1)
        assert read(consumer, 1) == [5]
        consumer.commit()
        assert given.groups[GROUP].offsets == {(topic, 0): 6}
        assert given.groups[GROUP].joined_count == 1
