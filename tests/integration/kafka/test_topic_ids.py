"""A call by a topic's id never reaches a topic that was made anew under its name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway
from tests.support.kafka_shares import ACCEPT, RELEASE, ShareMember, until

_PLAIN = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


@pytest.fixture
def wire(gateway: KafkaGateway) -> Iterator[Wire]:
    with Wire(gateway.kafka) as wire:
        yield wire


def id_of(wire: Wire, name: str) -> uuid.UUID:
    (told,) = wire.call("metadata", 12, topics=[{"name": name, "topic_id": None}], **_PLAIN).topics
    assert told.error_code is KafkaError.none
    found: uuid.UUID = told.topic_id
    return found


def deleted(wire: Wire, topic_id: uuid.UUID) -> Any:
    (answer,) = wire.call("delete_topics", 6, topics=[{"name": None, "topic_id": topic_id}], timeout=1000).responses
    return answer


def made_anew(gateway: KafkaGateway, wire: Wire) -> tuple[str, uuid.UUID]:
    """A topic that was re-created, and the id that it had before."""
    name = f"anew-{uuid.uuid4().hex[:8]}"
    gateway.topic(name, 1)
    former = id_of(wire, name)
    assert deleted(wire, former).error_code is KafkaError.none
    gateway.topic(name, 1)
    return name, former


def test_a_deletion_that_comes_again_spares_the_new_topic(gateway: KafkaGateway, wire: Wire) -> None:
    """A client that lost the answer repeats the request by id."""
    name, former = made_anew(gateway, wire)
    answer = deleted(wire, former)
    assert answer.error_code is KafkaError.unknown_topic_id
    assert id_of(wire, name) != former


def test_offsets_of_the_former_topic_are_not_committed_for_the_new_one(gateway: KafkaGateway, wire: Wire) -> None:
    """Else a group would skip the new topic's records. Fetching them by the former id finds no topic either."""
    name, former = made_anew(gateway, wire)
    group = f"g-{name}"
    entry = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    plain = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    (told,) = wire.call("offset_commit", 10, **plain, topics=[{"topic_id": former, "partitions": [entry]}]).topics
    assert told.partitions[0].error_code is KafkaError.unknown_topic_id
    asked = {"group_id": group, "member_id": None, "member_epoch": -1}
    topics = [{"topic_id": former, "partition_indexes": [0]}]
    (fetched,) = wire.call("offset_fetch", 10, groups=[asked | {"topics": topics}], require_stable=False).groups
    assert fetched.topics[0].partitions[0].error_code is KafkaError.unknown_topic_id
    now = id_of(wire, name)
    (told,) = wire.call("offset_commit", 10, **plain, topics=[{"topic_id": now, "partitions": [entry]}]).topics
    assert told.partitions[0].error_code is KafkaError.none


def test_metadata_goes_by_the_id_where_the_name_is_empty(gateway: KafkaGateway, wire: Wire) -> None:
    """Java's clients send an empty name with an id."""
    name, former = made_anew(gateway, wire)
    for version in (12, 13):
        for sent in ("", None):
            now = id_of(wire, name)
            (told,) = wire.call("metadata", version, topics=[{"name": sent, "topic_id": now}], **_PLAIN).topics
            assert (told.error_code, told.name) == (KafkaError.none, name)
            (gone,) = wire.call("metadata", version, topics=[{"name": sent, "topic_id": former}], **_PLAIN).topics
            assert gone.error_code is KafkaError.unknown_topic_id


def test_what_a_share_group_knew_of_the_former_topic_counts_for_nothing(gateway: KafkaGateway, wire: Wire) -> None:
    """Locks, counts and places: the new records come, counted once; none is settled by the former id."""
    name = f"shared-{uuid.uuid4().hex[:8]}"
    gateway.topic(name)
    group = f"g-{name}"
    put = gateway.http.put(f"/v1/queues/{group}", json={"topics": [name], "start": "earliest"})
    assert put.status_code == 201, put.text
    former = id_of(wire, name)
    with ShareMember(gateway.kafka, group, former) as member:
        gateway.produce(name, "old-0", "old-1", "old-2", "old-3")
        assert len(until(lambda: member.fetch(max_wait_ms=500), count=4).records) == 4
        assert member.acknowledge({0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE])]}) == (0, {0: 0})
        assert deleted(wire, former).error_code is KafkaError.none
        gateway.topic(name)
        gateway.produce(name, "new-0", "new-1", "new-2")
        member.acknowledge({0: [(2, 2, [ACCEPT])]})
        assert member.fetch(epoch=0).records == []
    with ShareMember(gateway.kafka, group, id_of(wire, name)) as member:
        found = until(lambda: member.fetch(max_wait_ms=500), count=3).records
        assert [(one.offset, one.value, one.deliveries) for one in found] == [
            (number, b"new-%d" % number, 1) for number in range(3)
        ]
        assert member.acknowledge({0: [(0, 2, [ACCEPT])]}) == (0, {0: 0})
    partition = gateway.http.get(f"/v1/queues/{group}").json()["partitions"][0]
    assert (partition["start_offset"], partition["in_flight"]) == (3, 0)


def test_a_topic_is_known_by_its_id_as_soon_as_it_is_made(gateway: KafkaGateway, wire: Wire) -> None:
    """Also right behind the question for an id that no topic has: the answer tells the id, so the client may use it."""
    name = f"made-{uuid.uuid4().hex[:8]}"
    asked = {"topics": [{"name": None, "topic_id": uuid.uuid4()}], **_PLAIN}
    (gone,) = wire.call("metadata", 13, **asked).topics
    assert gone.error_code is KafkaError.unknown_topic_id
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    (made,) = wire.call("create_topics", 7, topics=[topic], timeout=1000, validate_only=False).topics
    (told,) = wire.call("metadata", 13, topics=[{"name": None, "topic_id": made.topic_id}], **_PLAIN).topics
    assert (told.error_code, told.name) == (KafkaError.none, name)
