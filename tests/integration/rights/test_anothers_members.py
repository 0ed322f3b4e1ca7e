"""A member belongs to the principal that joined: who may read the group, too, can't speak for it, by no door."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.rights.row import ALTER_CLUSTER, READ, READ_GROUP, TRANSACTING
from tests.support.rights.world import LiveGateway, World

MEMBER = "/v1/groups/{group}/members/{member}"


@pytest.fixture
def mallory(live: LiveGateway, world: World) -> Iterator[World]:
    """Another caller, with the same rights and names."""
    other = World(live)
    other.names |= {name: world.names[name] for name in ("topic", "group")}
    for one in (world, other):
        one.grant([READ, READ_GROUP])
    yield other
    other.close()


def beaten(wire: Wire, world: World, member: str, epoch: int = 0, instance: str | None = None) -> Any:
    """The answer to a heartbeat of ``group.protocol=consumer``."""
    topics = [world.names["topic"]] if epoch == 0 else None
    return wire.call(
        "consumer_group_heartbeat", 1, group_id=world.names["group"], member_id=member, member_epoch=epoch,
        instance_id=instance, subscribed_topic_names=topics, topic_partitions=[] if epoch == 0 else None,
    )  # fmt: skip


def test_an_id_that_a_client_chose_is_its_own_over_http(world: World, mallory: World) -> None:
    """Another can't leave, beat, poll or commit for a member of Kafka's consumer protocol; its own principal can leave."""
    world.names["member"] = mallory.names["member"] = str(uuid.uuid4())
    with world.wire() as wire:
        epoch = beaten(wire, world, world.names["member"]).member_epoch
        as_member = {"member_id": "{member}", "generation": epoch}
        offsets = [{"topic": "{topic}", "partition": 0, "offset": 3}]
        for method, path, body in (
            ("DELETE", MEMBER, None),
            ("POST", MEMBER + "/heartbeat", {"generation": epoch}),
            ("POST", "/v1/groups/{group}/poll", as_member),
            ("PUT", "/v1/groups/{group}/offsets", {"offsets": offsets, **as_member}),
            (
                "POST",
                "/v1/records",
                {"topics": [], "group_offsets": [{"group": "{group}", "offsets": offsets, **as_member}]},
            ),
        ):
            answer = mallory.http(method, path, body)
            assert answer.failures == (404,), (path, answer)
            assert "UNKNOWN_MEMBER" in answer.text, (path, answer)
        assert beaten(wire, world, world.names["member"], epoch).error_code is KafkaError.none
    assert not world.http("DELETE", MEMBER).failures


def joined(wire: Wire, world: World, instance: str) -> Any:
    """The answer to a static member of the classic protocol."""
    return wire.call(
        "join_group", 5, group_id=world.names["group"], session_timeout=20_000, rebalance_timeout=20_000, member_id="",
        group_instance_id=instance, protocol_type="consumer", protocols=[{"name": "range", "metadata": b""}],
    )  # fmt: skip


def left(wire: Wire, world: World, instance: str) -> KafkaError:
    """What becomes of the wish to take a static member out."""
    members = [{"member_id": "", "group_instance_id": instance, "reason": None}]
    answer = wire.call("leave_group", 5, group_id=world.names["group"], members=members)
    code: KafkaError = answer.members[0].error_code
    return code


@pytest.mark.parametrize("protocol", ["classic", "consumer", "http"])
def test_a_static_member_is_replaced_and_removed_by_its_own_principal(
    protocol: str, world: World, mallory: World
) -> None:
    """Another that names its instance replaces nobody, removes nobody and is told no id. Who may alter the cluster removes it."""
    if protocol == "http":
        body = {"topics": ["{topic}"], "instance_id": "one"}
        world.mine("POST", "/v1/groups/{group}/members", body)
        assert mallory.http("POST", "/v1/groups/{group}/members", body).failures == (409,)
    with world.wire() as own, mallory.wire() as others:
        if protocol == "classic":
            assert joined(own, world, "one").error_code is KafkaError.none
            assert joined(others, mallory, "one").error_code is KafkaError.fenced_instance_id
        elif protocol == "consumer":
            member = str(uuid.uuid4())
            assert beaten(own, world, member, instance="one").error_code is KafkaError.none
            answer = beaten(others, mallory, str(uuid.uuid4()), instance="one")
            assert answer.error_code is KafkaError.fenced_instance_id
            assert member not in repr(answer)
        assert left(others, mallory, "one") is KafkaError.unknown_member_id
        mallory.grant([READ_GROUP, ALTER_CLUSTER])
        assert left(others, mallory, "one") is KafkaError.none
        assert joined(own, world, "one").error_code is KafkaError.none
        mallory.grant([READ_GROUP])
        assert left(own, world, "one") is KafkaError.none


def staged(wire: Wire, world: World, member: str, generation: int, version: int = 3) -> KafkaError:
    """What becomes of an offset of the group in a transaction of the caller's own."""
    name = world.names["tid"]
    made = wire.call(
        "init_producer_id", 4, transactional_id=name, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1
    )
    producer = {"transactional_id": name, "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    group = {"group_id": world.names["group"]}
    assert wire.call("add_offsets_to_txn", 3, **producer, **group).error_code is KafkaError.none
    as_member = {"member_id": member, "generation_id": generation, "group_instance_id": None} if version > 2 else {}
    offset = {
        "partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": "",
    }  # fmt: skip
    topics = [{"name": world.names["topic"], "partitions": [offset]}]
    answer = wire.call("txn_offset_commit", version, **producer, **group, **as_member, topics=topics)
    code: KafkaError = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("protocol", ["classic", "consumer", "http"])
def test_offsets_in_a_transaction_are_of_a_member_of_the_caller(protocol: str, world: World, mallory: World) -> None:
    """Another's transaction has no offsets of its group, as over HTTP, whether it names the member or none."""
    group = world.names["group"]
    for one in (world, mallory):
        one.grant([READ, READ_GROUP, TRANSACTING])
    with world.wire() as own, mallory.wire() as others:
        if protocol == "classic":
            made = joined(own, world, "one")
            member, generation = made.member_id, made.generation_id
            own.call(
                "sync_group", 5, group_id=group, generation_id=generation, member_id=member, group_instance_id="one",
                protocol_type="consumer", protocol_name="range",
                assignments=[{"member_id": member, "assignment": b""}],
            )  # fmt: skip
        elif protocol == "consumer":
            member = str(uuid.uuid4())
            generation = beaten(own, world, member).member_epoch
        else:
            taken = world.mine("POST", "/v1/groups/{group}/members", {"topics": ["{topic}"]})
            member, generation = taken["member_id"], taken["generation"]
        assert staged(others, mallory, member, generation) is KafkaError.unknown_member_id
        if protocol == "classic":  # clients before KIP-447 name no member
            assert staged(others, mallory, "", -1, version=2) is KafkaError.unknown_member_id
            assert staged(own, world, "", -1, version=2) is KafkaError.none
        assert staged(own, world, member, generation) is KafkaError.none


@pytest.mark.parametrize("name", ["tid\n2026 forged", "tid\x1b[2J", "tid\0", "t" * 256], ids=len)
def test_a_transactional_id_is_a_name(name: str, world: World) -> None:
    """What an operator's list could not show is refused, as over HTTP, whatever the caller may."""
    world.grant([("All", "transactional_id", "*")])
    with world.wire() as wire:
        made = wire.call(
            "init_producer_id", 4, transactional_id=name, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1
        )
    assert made.error_code is KafkaError.invalid_request
    assert world.http("POST", "/v1/transactions", {"transactional_id": name}).failures == (400,)
