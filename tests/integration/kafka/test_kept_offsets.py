"""What a client commits is told again as it came: offsets below 0, as kafkajs commits them to reset a group, and leader epochs.

Over HTTP an offset below 0 is none: readers begin by their own rule.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway

EARLIEST, LATEST = -2, -1
EPOCH_VERSION = 6
"""Of OffsetCommit: from which it has leader epochs."""


@pytest.fixture
def topic(gateway: KafkaGateway) -> str:
    """One partition with three records."""
    name = gateway.topic(f"kept-{uuid.uuid4().hex[:8]}", 1)
    gateway.produce(name, "0", "1", "2")
    return name


def committed(wire: Wire, topic: str, offset: int, version: int = 8, epoch: int = -1) -> str:
    """A new group with this offset."""
    group = f"g-{uuid.uuid4().hex[:8]}"
    entry = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": "",
    }
    plain = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    (told,) = wire.call("offset_commit", version, **plain, topics=[{"name": topic, "partitions": [entry]}]).topics
    assert told.partitions[0].error_code is KafkaError.none
    return group


def fetched(wire: Wire, group: str, topic: str) -> tuple[int, int]:
    """The group's offset and its epoch."""
    asked = [{"name": topic, "partition_indexes": [0]}]
    (told,) = wire.call("offset_fetch", 7, group_id=group, topics=asked, require_stable=False).topics
    return told.partitions[0].committed_offset, told.partitions[0].committed_leader_epoch


def polled(gateway: KafkaGateway, group: str, topic: str, rule: str) -> Any:
    """The partition in a member's first poll."""
    wish = {"topics": [topic], "auto_offset_reset": rule, "max_wait_ms": 0}
    answer = gateway.http.post(f"/v1/groups/{group}/poll", json=wish)
    assert answer.status_code == 200, answer.text
    (partition,) = answer.json()["partitions"]
    return partition


@pytest.mark.parametrize("offset", [EARLIEST, LATEST])
@pytest.mark.parametrize("version", [2, 5, 8, 9])
def test_an_offset_below_0_is_kept(gateway: KafkaGateway, wire: Wire, topic: str, version: int, offset: int) -> None:
    """A broker refuses none; kafkajs waited for ever."""
    group = committed(wire, topic, offset, version)
    assert fetched(wire, group, topic) == (offset, -1)


@pytest.mark.parametrize("offset", [EARLIEST, LATEST])
def test_it_is_no_offset_over_http(gateway: KafkaGateway, wire: Wire, topic: str, offset: int) -> None:
    """Neither listed, nor counted as lag, nor shifted; another commit of the group is answered without it."""
    group = committed(wire, topic, offset)
    http = gateway.http
    assert http.get(f"/v1/groups/{group}/offsets").json() == {"offsets": []}
    lag = http.get(f"/v1/groups/{group}/lag").json()
    (partition,) = lag["topics"][0]["partitions"]
    assert (partition["committed_offset"], partition["lag"], partition["lag_ms"], lag["total"]) == (None, None, None, 0)
    readers = http.get("/v1/lag").json()["topics"]
    assert group not in [one["group"] for row in readers if row["topic"] == topic for one in row["groups"]]
    shifted = http.post(f"/v1/groups/{group}/offsets:reset", json={"topics": [topic], "to": {"shift": 1}})
    assert (shifted.status_code, shifted.json()["error_code"]) == (409, "NO_COMMITTED_OFFSET")
    other = gateway.topic(f"other-{uuid.uuid4().hex[:8]}", 1)
    put = http.put(f"/v1/groups/{group}/offsets", json={"offsets": [{"topic": other, "partition": 0, "offset": 0}]})
    assert [(row["topic"], row["offset"]) for row in put.json()["offsets"]] == [(other, 0)]
    assert fetched(wire, group, topic) == (offset, -1)


@pytest.mark.parametrize(("rule", "next_offset"), [("earliest", 0), ("latest", 3)])
def test_a_reader_begins_by_its_own_rule(
    gateway: KafkaGateway, wire: Wire, topic: str, rule: str, next_offset: int
) -> None:
    """Whatever was committed; and where it began is committed then."""
    group = committed(wire, topic, LATEST if rule == "earliest" else EARLIEST)
    partition = polled(gateway, group, topic, rule)
    assert [one["offset"] for one in partition["records"]] == list(range(next_offset, 3))
    assert fetched(wire, group, topic)[0] == next_offset


def test_a_reader_without_a_rule_is_told(gateway: KafkaGateway, wire: Wire, topic: str) -> None:
    """As where nothing is committed."""
    group = committed(wire, topic, EARLIEST)
    error = polled(gateway, group, topic, "none")["error"]
    assert error["error_code"] == "NO_COMMITTED_OFFSET"
    assert "has no committed offset for" in error["detail"]


def test_a_negative_offset_over_http_is_refused(gateway: KafkaGateway, topic: str) -> None:
    """The contract has none, nor epochs: also for a member's commit, which is read in a shorter way."""
    for more in ({"offset": -2}, {"offset": 1, "leader_epoch": 3}):
        body = {"offsets": [{"topic": topic, "partition": 0, **more}]}
        for member in ({}, {"member_id": "m", "generation": 1}):
            assert gateway.http.put("/v1/groups/g-refused/offsets", json=body | member).status_code == 400


def test_a_committed_leader_epoch_is_told(gateway: KafkaGateway, wire: Wire, topic: str) -> None:
    """By hand, and to kafka-python."""
    assert fetched(wire, committed(wire, topic, 2, EPOCH_VERSION, epoch=4), topic) == (2, 4)
    assert fetched(wire, committed(wire, topic, 2, EPOCH_VERSION - 1), topic) == (2, -1)
    place, group = TopicPartition(topic, 0), f"g-{uuid.uuid4().hex[:8]}"
    with KafkaConsumer(bootstrap_servers=gateway.kafka, group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(2, "m", 0)})
        assert consumer.committed(place, metadata=True) == OffsetAndMetadata(2, "m", 0)


@pytest.mark.parametrize(("offset", "epoch"), [(2, 4), (EARLIEST, -1)])
def test_offsets_of_a_transaction_are_kept_alike(
    gateway: KafkaGateway, wire: Wire, topic: str, offset: int, epoch: int
) -> None:
    """They pass through a staged object, and through what is pending."""
    name, group = f"x-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    began = wire.call("init_producer_id", 2, transactional_id=name, transaction_timeout=60_000)
    own = {"transactional_id": name, "producer_id": began.producer_id, "producer_epoch": began.producer_epoch}
    assert wire.call("add_offsets_to_txn", 2, **own, group_id=group).error_code is KafkaError.none
    entry = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": epoch,
        "committed_metadata": "",
    }
    plain = {"group_id": group, "generation_id": -1, "member_id": "", "group_instance_id": None}
    sent = wire.call("txn_offset_commit", 3, **own, **plain, topics=[{"name": topic, "partitions": [entry]}])
    assert sent.topics[0].partitions[0].error_code is KafkaError.none
    assert wire.call("end_txn", 2, **own, committed=True).error_code is KafkaError.none
    assert fetched(wire, group, topic) == (offset, epoch)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_epoch_to_come_has_no_end(gateway: KafkaGateway, wire: Wire, topic: str, version: int) -> None:
    """A broker answers -1 to an epoch that it does not know, and to none; the present one ends at the high watermark."""
    found = {}
    for epoch in (-1, 0, 1, 7):
        asked = [{"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]}]
        (told,) = wire.call("offset_for_leader_epoch", version, replica_id=-1, topics=asked).topics
        assert told.partitions[0].error_code is KafkaError.none
        found[epoch] = (told.partitions[0].leader_epoch, told.partitions[0].end_offset)
    assert found == {-1: (-1, -1), 0: (0, 3), 1: (-1, -1), 7: (-1, -1)}
