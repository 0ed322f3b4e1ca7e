"""A share group at several gateways, and at one that is killed: one coordinator, and what was accepted stays so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import waiting
from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.kafka_shares import ACCEPT, ShareMember, topic_id, until

SETTINGS = ("--heartbeat-ms", "300")
NOT_COORDINATOR, UNKNOWN_MEMBER_ID = 16, 25
WAIT_SECONDS = 30
LOCK_MS = 1_500


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[KafkaGateway]]:
    """Two over one store, which know each other."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(kafka_gateway(tmp_path / "store", tmp_path / f"log{number}", *SETTINGS))
            for number in range(2)
        ]


def _put(gateway: KafkaGateway, queue: str, topic: str) -> None:
    body = {"topics": [topic], "start": "earliest", "lock_ms": LOCK_MS}
    assert gateway.http.put(f"/v1/queues/{queue}", json=body).status_code == 201


def _coordinators(gateways: list[KafkaGateway], group: str) -> list[KafkaGateway]:
    """The gateway that each names."""
    by_address = {gateway.kafka: gateway for gateway in gateways}
    found = []
    for gateway in gateways:
        with Wire(gateway.kafka) as wire:
            (one,) = wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators
            found.append(by_address[f"{one.host}:{one.port}"])
    return found


def _agreed(gateways: list[KafkaGateway]) -> tuple[str, KafkaGateway, KafkaGateway]:
    """A group that the second gateway coordinates as both say, so that they know each other; its coordinator, the other."""
    names = [f"group-{number}" for number in range(20)]
    agreed = waiting.until(lambda: [name for name in names if _coordinators(gateways, name) == [gateways[1]] * 2])
    return agreed[0], gateways[1], gateways[0]


def test_any_gateway_serves_a_share_group_and_one_coordinates_it(gateways: list[KafkaGateway]) -> None:
    """Records taken through another gateway are the same ones, locked once; large answers come whole."""
    group, coordinator, other = _agreed(gateways)
    topic = other.topic("shared")
    _put(other, group, topic)
    value = "x" * 100_000
    for _ in range(3):
        assert other.produce(topic, value, value).status_code == 200
    of = topic_id(other, topic)
    with ShareMember(coordinator.kafka, group, of) as near, ShareMember(other.kafka, group, of) as far:
        assert far.beat(0, [topic]).error_code == NOT_COORDINATOR
        assert near.beat(0, [topic]).error_code == 0
        first = until(lambda: far.fetch(max_records=3, max_wait_ms=1_000), count=3)
        assert [(one.offset, one.deliveries, len(one.value)) for one in first.records] == [
            (offset, 1, 100_000) for offset in range(3)
        ]
        assert first.lock_ms > 1_000
        second = until(lambda: near.fetch(max_wait_ms=1_000), count=3)
        assert [one.offset for one in second.records] == [3, 4, 5]
        assert far.acknowledge({0: [(0, 2, [ACCEPT])]}) == (0, {0: 0})
        assert near.acknowledge({0: [(3, 5, [ACCEPT])]}) == (0, {0: 0})
    assert other.http.get(f"/v1/queues/{group}").json()["partitions"][0]["start_offset"] == 6
    assert (coordinator.metric("tidelog_queues_coordinated"), other.metric("tidelog_queues_coordinated")) == (1, 0)


def test_a_coordinator_that_is_killed_is_replaced(gateways: list[KafkaGateway]) -> None:
    """What was accepted through it never comes again; what it had locked comes again when the locks end."""
    group, coordinator, other = _agreed(gateways)
    topic = other.topic("killed")
    _put(other, group, topic)
    other.produce(topic, "a", "b")
    of = topic_id(other, topic)
    with ShareMember(other.kafka, group, of) as member:
        until(lambda: member.fetch(max_wait_ms=1_000), count=2)
        assert member.acknowledge({0: [(0, 0, [ACCEPT])]}) == (0, {0: 0})
        coordinator.kill()
        again = until(lambda: member.fetch(max_wait_ms=1_000))
        assert [one.offset for one in again.records] == [1]
        assert member.acknowledge({0: [(1, 1, [ACCEPT])]})[1] == {0: 0}
    coordinator.start()


def test_a_gateway_that_is_killed_loses_nothing_accepted(tmp_path: Path) -> None:
    """Alone, and started again: the members join again, and go on."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log", *SETTINGS) as gateway:
        topic = gateway.topic("restarted")
        _put(gateway, "restarted", topic)
        gateway.produce(topic, "a", "b", "c")
        of = topic_id(gateway, topic)
        with ShareMember(gateway.kafka, "restarted", of) as member:
            epoch = member.beat(0, [topic]).member_epoch
            until(lambda: member.fetch(max_wait_ms=1_000), count=3)
            assert member.acknowledge({0: [(0, 1, [ACCEPT])]}) == (0, {0: 0})
        gateway.kill()
        gateway.start()
        with ShareMember(gateway.kafka, "restarted", of) as member:
            waiting.until(lambda: member.beat(epoch).error_code != NOT_COORDINATOR)
            assert member.beat(epoch).error_code == UNKNOWN_MEMBER_ID
            assert member.beat(0, [topic]).error_code == 0
            again = until(lambda: member.fetch(max_wait_ms=1_000))
            assert [one.offset for one in again.records] == [2]
