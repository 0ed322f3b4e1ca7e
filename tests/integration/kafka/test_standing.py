"""Rights over time by Kafka's protocol: what waits is judged again before it answers, and ids are their owners'."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Closed, Wire, log_in
from tests.support.kafka_secured import Service
from tests.support.kafka_shares import ShareMember
from tests.support.waiting import eventually

TOPIC_DENIED, GROUP_DENIED = KafkaError.topic_authorization_failed, KafkaError.group_authorization_failed
UNKNOWN = KafkaError.invalid_producer_id_mapping
SECRET = {"value": "a secret"}
WAIT_MS = 15_000


def _wait(wire: Wire, topic: str) -> None:
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    limits = {"max_wait": WAIT_MS, "min_bytes": 1, "max_bytes": 1000, "replica_id": -1, "rack_id": ""}
    wire.ask("fetch", 12, **limits, forgotten_topics_data=(), topics=[{"topic": topic, "partitions": [place]}])


def _waits(service: Service) -> Callable[[], bool]:
    """Whether a reader waits at the gateway."""

    def waits() -> bool:
        lines = service.secured.admin.http.get("/metrics").text.splitlines()
        return any(line.startswith("tidelog_waiting_polls ") and float(line.split()[-1]) >= 1 for line in lines)

    return waits


def test_a_fetch_that_waits_is_judged_again_before_it_answers(service: Service, topic: str) -> None:
    """The record that ends the wait is for those that may read it then; the denial is in the audit trail."""
    principal, token = service.user(("Read", "topic", topic))
    with Wire(service.kafka) as wire:
        assert log_in(wire, token).error_code == 0
        _wait(wire, topic)
        assert eventually(_waits(service))
        service.secured.forget(principal)
        assert service.secured.admin.produce(topic, SECRET).status_code == 200
        (part,) = wire.answer("fetch", 12).responses[0].partitions
    assert part.error_code is TOPIC_DENIED
    assert not part.records
    denial = {"kind": "denial", "principal": principal, "route": "Fetch", "resource": topic}
    assert eventually(lambda: service.secured.events(**denial), 20)


def test_a_fetch_that_waits_does_not_outlive_its_token(service: Service, topic: str) -> None:
    """The connection closes, as with any request once the credential has ended."""
    principal = f"User:u-{uuid.uuid4().hex[:12]}"
    service.secured.allow(principal, "Read", "topic", topic)
    made = service.secured.token(principal)
    with Wire(service.kafka) as wire:
        assert log_in(wire, made["token"]).error_code == 0
        _wait(wire, topic)
        assert eventually(_waits(service))
        assert service.secured.admin.http.delete(f"/v1/access/tokens/{made['id']}").status_code == 204
        assert service.secured.admin.produce(topic, SECRET).status_code == 200
        with pytest.raises(Closed):
            wire.answer("fetch", 12)


@pytest.mark.parametrize("lost", ["the topic", "the group"])
def test_a_share_fetch_that_waits_is_judged_again(service: Service, topic: str, lost: str) -> None:
    """By the right to the topic and the one to the group; what it took comes again to others when its lock ends."""
    group = f"g-{uuid.uuid4().hex[:8]}"
    reads_topic, reads_group = ("Read", "topic", topic), ("Read", "group", group)
    principal, token = service.user(reads_topic, reads_group)
    admin = service.secured.admin
    made = admin.http.put(f"/v1/queues/{group}", json={"topics": [topic], "start": "earliest", "lock_ms": 2_000})
    assert made.status_code == 201, made.text
    with Wire(service.kafka) as wire:
        assert log_in(wire, token).error_code == 0
        described = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        (told,) = wire.call("metadata", 12, topics=[{"name": topic, "topic_id": None}], **described).topics
    with ShareMember(service.kafka, group, told.topic_id) as member:
        assert log_in(member.wire, token).error_code == 0
        assert member.beat(0, [topic]).error_code is KafkaError.none
        assert member.fetch().error == 0
        member.ask_to_fetch(max_wait_ms=WAIT_MS)
        assert eventually(_waits(service))
        service.secured.forget(principal)
        service.secured.allow(principal, *(reads_group if lost == "the topic" else reads_topic))
        assert admin.produce(topic, SECRET).status_code == 200
        found = member.fetched()
    assert not found.records
    if lost == "the topic":
        assert (found.error, found.errors) == (0, {0: TOPIC_DENIED})
    else:
        assert found.error == GROUP_DENIED.value
    received: list[Any] = []

    def came_again() -> bool:
        answer = admin.http.post(f"/v1/queues/{group}:receive", json={})
        received.extend(answer.json()["records"])
        return bool(received)

    assert eventually(came_again, 20)
    assert received[0]["value"] == SECRET["value"]


def test_a_transactional_producer_is_its_principals(service: Service, topic: str) -> None:
    """Another with the same rights gets the answer to an epoch that was never issued, and ends nothing by it."""
    name = f"x-{uuid.uuid4().hex[:8]}"
    rights = (("Write", "transactional_id", name), ("Write", "topic", topic))
    init = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    with Wire(service.kafka) as mine, Wire(service.kafka) as others:
        assert log_in(mine, service.user(*rights)[1]).error_code == 0
        assert log_in(others, service.user(*rights)[1]).error_code == 0
        own = mine.call("init_producer_id", 4, **init)
        assert own.error_code is KafkaError.none

        def begun(wire: Wire, epoch: int = own.producer_epoch) -> KafkaError:
            asked = {"v3_and_below_transactional_id": name, "v3_and_below_producer_id": own.producer_id}
            asked |= {"v3_and_below_producer_epoch": epoch}
            asked |= {"v3_and_below_topics": [{"name": topic, "partitions": [0]}]}
            (of_topic,) = wire.call("add_partitions_to_txn", 3, **asked).results_by_topic_v3_and_below
            (part,) = of_topic.results_by_partition
            code: KafkaError = part.partition_error_code
            return code

        def ended(wire: Wire) -> KafkaError:
            asked = {"transactional_id": name, "producer_id": own.producer_id, "producer_epoch": own.producer_epoch}
            code: KafkaError = wire.call("end_txn", 3, **asked, committed=False).error_code
            return code

        assert begun(others, epoch=own.producer_epoch + 7) is UNKNOWN
        assert begun(others) is UNKNOWN
        assert begun(mine) is KafkaError.none
        assert begun(others) is UNKNOWN
        assert ended(others) is UNKNOWN
        assert ended(mine) is KafkaError.none
