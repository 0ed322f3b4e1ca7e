"""AlterShareGroupOffsets, DeleteShareGroupOffsets: a share group goes on elsewhere while no member holds a record."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support import waiting
from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway
from tests.support.kafka_shares import ACCEPT, RELEASE, ShareMember, topic_id, until

UNKNOWN_TOPIC = KafkaError.unknown_topic_or_partition


@pytest.fixture
def topic(gateway: KafkaGateway) -> str:
    return gateway.topic(f"s{secrets.token_hex(4)}", 2)


@pytest.fixture
def group(gateway: KafkaGateway, topic: str) -> str:
    """A queue that has settled a, b and c of partition 0; d waits."""
    name = f"g{secrets.token_hex(4)}"
    answer = gateway.http.put(f"/v1/queues/{name}", json={"topics": [topic], "start": "earliest"})
    assert answer.status_code == 201, answer.text
    gateway.produce(topic, "a", "b", "c", "d")
    with ShareMember(gateway.kafka, name, topic_id(gateway, topic), partitions=2) as member:
        until(lambda: member.fetch(max_wait_ms=500), count=4)
        assert member.acknowledge({0: [(0, 2, [ACCEPT]), (3, 3, [RELEASE])]}) == (0, {0: 0})
        assert member.acknowledge({}, epoch=-1)[0] == 0
    return name


def altered(wire: Wire, group: str, topics: Mapping[str, Mapping[int, int]]) -> Any:
    """By topic and partition the codes, or that of the whole."""
    asked = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "start_offset": offset} for index, offset in offsets.items()],
        }
        for name, offsets in topics.items()
    ]
    answer = wire.call("alter_share_group_offsets", 0, group_id=group, topics=asked)
    return answer.error_code or {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.responses
        for one in topic.partitions
    }


def deleted(wire: Wire, group: str, *topics: str) -> Any:
    """By topic the codes, or that of the whole."""
    asked = [{"topic_name": name} for name in topics]
    answer = wire.call("delete_share_group_offsets", 0, group_id=group, topics=asked)
    return answer.error_code or {topic.topic_name: topic.error_code for topic in answer.responses}


def starts(wire: Wire, group: str) -> dict[tuple[str, int], int]:
    (found,) = wire.call("describe_share_group_offsets", 1, groups=[{"group_id": group, "topics": None}]).groups
    assert found.error_code is KafkaError.none, found
    return {
        (topic.topic_name, one.partition_index): one.start_offset for topic in found.topics for one in topic.partitions
    }


def values(gateway: KafkaGateway, group: str, topic: str, count: int) -> list[tuple[int, int, int]]:
    """What a new member gets: partitions, offsets, deliveries."""
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic), partitions=2) as member:
        found = until(lambda: member.fetch(max_wait_ms=500), count=count).records
        return sorted((one.partition, one.offset, one.deliveries) for one in found)


def test_back_and_ahead(gateway: KafkaGateway, wire: Wire, topic: str, group: str) -> None:
    """What was settled behind the new start comes again, counted anew; what lies before it does not come."""
    assert starts(wire, group) == {(topic, 0): 3, (topic, 1): 0}
    assert altered(wire, group, {topic: {0: 1}}) == {(topic, 0): 0}
    assert starts(wire, group) == {(topic, 0): 1, (topic, 1): 0}
    assert values(gateway, group, topic, 3) == [(0, 1, 1), (0, 2, 1), (0, 3, 1)]
    until_free(wire, group, topic)
    assert altered(wire, group, {topic: {0: 4}}) == {(topic, 0): 0}
    gateway.produce(topic, "e")
    assert values(gateway, group, topic, 1) == [(0, 4, 1)]


def until_free(wire: Wire, group: str, topic: str) -> None:
    """Until what the last member had is given back: what it got may be moved then."""
    waiting.until(lambda: altered(wire, group, {topic: {1: 0}}) is not KafkaError.coordinator_not_available)


def test_other_partitions_stay(gateway: KafkaGateway, wire: Wire, topic: str, group: str) -> None:
    """What is settled of a partition that is not named is kept, over a restart of its coordination, too."""
    assert altered(wire, group, {topic: {1: 7}}) == {(topic, 1): 0}
    assert starts(wire, group) == {(topic, 0): 3, (topic, 1): 7}
    assert values(gateway, group, topic, 1) == [(0, 3, 2)]


def test_a_topic_that_it_did_not_read(gateway: KafkaGateway, wire: Wire, topic: str, group: str) -> None:
    """It is read from now on, other partitions from where the group begins."""
    other = gateway.topic(f"s{secrets.token_hex(4)}", 2)
    gateway.produce(other, "x", "y")
    assert altered(wire, group, {other: {0: 1}}) == {(other, 0): 0}
    assert starts(wire, group) == {(topic, 0): 3, (topic, 1): 0, (other, 0): 1, (other, 1): 0}


def test_not_while_somebody_has_a_part(gateway: KafkaGateway, wire: Wire, topic: str, group: str) -> None:
    """A member, or a record that a worker over HTTP has locked: nothing is changed, and a try after that is taken."""
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic)) as member:
        assert member.beat(0, [topic]).error_code == 0
        assert altered(wire, group, {topic: {0: 0}}) is KafkaError.non_empty_group
        assert deleted(wire, group, topic) is KafkaError.non_empty_group
        assert member.beat(-1).error_code == 0
    (record,) = gateway.http.post(f"/v1/queues/{group}:receive", json={"max_records": 1}).json()["records"]
    assert altered(wire, group, {topic: {0: 0}}) is KafkaError.coordinator_not_available
    assert deleted(wire, group, topic) is KafkaError.coordinator_not_available
    assert starts(wire, group)[topic, 0] == 3
    one = {"topic": topic, "partition": 0, "offset": 3, "lease": record["lease"], "action": "accept"}
    assert gateway.http.post(f"/v1/queues/{group}:settle", json={"settlements": [one]}).json()["results"][0]["settled"]
    assert altered(wire, group, {topic: {0: 0}}) == {(topic, 0): 0}
    assert starts(wire, group)[topic, 0] == 0


def test_deleted_offsets(gateway: KafkaGateway, wire: Wire, topic: str, group: str) -> None:
    """The topic is read no more; a member that subscribes to it begins where the group begins."""
    assert deleted(wire, group, topic, "nowhere") == {topic: 0, "nowhere": UNKNOWN_TOPIC}
    assert starts(wire, group) == {}
    assert deleted(wire, group, topic) == {topic: UNKNOWN_TOPIC}
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic)) as member:
        assert member.beat(0, [topic]).error_code == 0
        assert [one.offset for one in until(lambda: member.fetch(max_wait_ms=500), count=4).records] == [0, 1, 2, 3]


def test_what_is_not_there_is_told(wire: Wire, topic: str, group: str) -> None:
    """No group, no topic, no such partition, no offset; what is well is done beside it."""
    assert altered(wire, "nowhere", {topic: {0: 0}}) is KafkaError.group_id_not_found
    assert deleted(wire, "nowhere", topic) is KafkaError.group_id_not_found
    assert altered(wire, group, {"nowhere": {0: 0}, topic: {0: 2, 1: -1, 9: 0}}) == {
        ("nowhere", 0): UNKNOWN_TOPIC,
        (topic, 0): 0,
        (topic, 1): KafkaError.invalid_request,
        (topic, 9): UNKNOWN_TOPIC,
    }
    assert starts(wire, group) == {(topic, 0): 2, (topic, 1): 0}
