"""What a Kafka client may: judged by the rights and quotas of HTTP, and in the same audit trail. The matrix of rights tries each
request."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.kafka_frames import Closed, Wire, log_in
from tests.support.kafka_secured import Service
from tests.support.waiting import until

SASL_FAILED, UNSUPPORTED_MECHANISM, ILLEGAL_STATE = 58, 33, 34
TOPIC_DENIED = 29


def test_a_refusal_does_not_tell_whether_a_topic_exists(service: Service, secured_wire: Wire, topic: str) -> None:
    """The same code for one that is there and one that is not."""
    assert log_in(secured_wire, service.user()[1]).error_code == 0
    resources = [
        {"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in (topic, f"{topic}-none")
    ]
    answer = secured_wire.call("describe_configs", 4, resources=resources)
    assert [one.error_code for one in answer.results] == [TOPIC_DENIED, TOPIC_DENIED]
    wanted = [{"name": name, "topic_id": None} for name in (topic, f"{topic}-none")]
    answer = secured_wire.call("delete_topics", 6, topics=wanted, timeout=0)
    assert [one.error_code for one in answer.responses] == [TOPIC_DENIED, TOPIC_DENIED]


def test_a_topic_is_created_by_who_may_create_it(service: Service, secured_wire: Wire, topic: str) -> None:
    """By asking for it; without Describe it is not told either."""
    principal, token = service.user()
    assert log_in(secured_wire, token).error_code == 0
    name = f"{topic}-asked-for"

    def told() -> tuple[int, int]:
        wanted = [{"name": name, "topic_id": None}]
        (found,) = secured_wire.call("metadata", 4, topics=wanted, allow_auto_topic_creation=True).topics
        return found.error_code, len(found.partitions)

    assert told() == (TOPIC_DENIED, 0)
    service.secured.allow(principal, "Describe", "topic", name)
    assert told() == (TOPIC_DENIED, 0)
    service.secured.allow(principal, "Create", "topic", name)
    assert told() == (0, 2)


def test_acls_are_one_set_for_both_doors(service: Service, topic: str) -> None:
    """What librdkafka adds HTTP lists, judges by and shows; what it deletes is gone there."""
    _, token = service.user(("Alter", "cluster", "cluster"), ("Describe", "cluster", "cluster"))
    admin = AdminClient(service.settings(token))
    anything: Any = None
    who = f"User:k-{uuid.uuid4().hex[:8]}"

    def binding(operation: AclOperation, pattern: ResourcePatternType, name: str) -> AclBinding:
        return AclBinding(ResourceType.TOPIC, name, pattern, who, "*", operation, AclPermissionType.ALLOW)

    wanted = [
        binding(AclOperation.READ, ResourcePatternType.LITERAL, topic),
        binding(AclOperation.WRITE, ResourcePatternType.PREFIXED, "t-"),
    ]
    for made in admin.create_acls(wanted).values():
        made.result(20)
    listed = service.secured.admin.http.get("/v1/access/acls", params={"principal": who}).json()["acls"]
    assert {(one["operation"], one["resource"], one["pattern"]) for one in listed} == {
        ("Read", topic, "literal"),
        ("Write", "t-", "prefix"),
    }
    asked = AclBindingFilter(
        ResourceType.TOPIC, topic, ResourcePatternType.MATCH, who, anything, AclOperation.ANY, AclPermissionType.ANY
    )
    assert set(admin.describe_acls(asked).result(20)) == set(wanted)
    refused = AclBinding(
        ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, who, "*", AclOperation.IDEMPOTENT_WRITE,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    with pytest.raises(KafkaException, match="Write on the topic"):
        admin.create_acls([refused])[refused].result(20)
    everything = AclBindingFilter(
        ResourceType.ANY, anything, ResourcePatternType.ANY, who, anything, AclOperation.ANY, AclPermissionType.ANY
    )
    assert len(admin.delete_acls([everything])[everything].result(20)) == 2
    assert service.secured.admin.http.get("/v1/access/acls", params={"principal": who}).json()["acls"] == []


def test_quotas_of_users_are_one_set_for_both_doors(service: Service, secured_wire: Wire) -> None:
    """Byte rates go both ways; the other rates of HTTP stay as they are."""
    _, token = service.user(("Alter", "cluster", "cluster"))
    assert log_in(secured_wire, token).error_code == 0
    name = f"q-{uuid.uuid4().hex[:8]}"
    path = f"/v1/access/quotas/User%3A{name}"
    assert service.secured.admin.http.put(path, json={"requests_per_s": 77}).status_code == 200
    entity = ({"entity_type": "user", "entity_name": name},)
    ops = ({"key": "producer_byte_rate", "value": 5e6, "remove": False},)
    answer = secured_wire.call("alter_client_quotas", 0, entries=({"entity": entity, "ops": ops},), validate_only=False)
    assert answer.entries[0].error_code == 0
    told = service.secured.admin.http.get(path).json()
    assert (told["produce_bytes_per_s"], told["requests_per_s"], told["fetch_bytes_per_s"]) == (5_000_000, 77, None)
    component = {"entity_type": "user", "match_type": 0, "match": name}
    (entry,) = secured_wire.call("describe_client_quotas", 1, components=(component,), strict=True).entries
    assert [(one.key, one.value) for one in entry.values] == [("producer_byte_rate", 5e6)]
    for wrong in (
        {"entity": ({"entity_type": "client-id", "entity_name": "c"},), "ops": ops},
        {"entity": entity, "ops": ({"key": "request_percentage", "value": 5.0, "remove": False},)},
        {"entity": entity, "ops": ({"key": "producer_byte_rate", "value": float("nan"), "remove": False},)},
    ):
        answer = secured_wire.call("alter_client_quotas", 1, entries=(wrong,), validate_only=False)
        assert (answer.entries[0].error_code, answer.entries[0].error_message is None) == (42, False)


def test_requests_beyond_the_quota_wait(service: Service) -> None:
    """A connection is not read on while its principal is in debt: no request is refused or lost."""
    principal, token = service.user()
    path = f"/v1/access/quotas/{principal.replace(':', '%3A')}"
    assert service.secured.admin.http.put(path, json={"requests_per_s": 10}).status_code == 200
    with Wire(service.kafka) as wire:
        assert log_in(wire, token).error_code == 0
        started = time.monotonic()
        for _ in range(30):
            wire.call("metadata", 4, topics=(), allow_auto_topic_creation=False)
        assert 1.5 <= time.monotonic() - started <= 60


def test_more_connections_than_the_quota_are_closed(service: Service) -> None:
    """The first ones go on."""
    principal, token = service.user()
    path = f"/v1/access/quotas/{principal.replace(':', '%3A')}"
    assert service.secured.admin.http.put(path, json={"connections": 1}).status_code == 200
    with Wire(service.kafka) as first, Wire(service.kafka) as second:
        assert log_in(first, token).error_code == 0
        assert first.call("metadata", 4, topics=(), allow_auto_topic_creation=False)
        with pytest.raises(Closed):
            log_in(second, token)
        assert first.call("metadata", 4, topics=(), allow_auto_topic_creation=False)


def test_the_audit_trail_has_what_kafka_clients_did(service: Service, topic: str) -> None:
    """Denials, failed logins and administration, with the call's name and where it came from."""
    principal, token = service.user(("Create", "topic", f"{topic}-audited"))
    admin = AdminClient(service.settings(token))
    admin.create_topics([NewTopic(f"{topic}-audited", 1, 1)])[f"{topic}-audited"].result(20)
    with pytest.raises(KafkaException):
        admin.delete_topics([topic])[topic].result(20)
    group = f"{topic}-audited"
    committed = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert service.secured.admin.http.put(f"/v1/groups/{group}/offsets", json=committed).status_code == 200
    service.secured.allow(principal, "Delete", "group", group)
    with Wire(service.kafka) as wire:
        assert log_in(wire, token).error_code == 0
        erased = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        (of_topic,) = wire.call("offset_delete", 0, group_id=group, topics=erased).topics
        assert of_topic.partitions[0].error_code == TOPIC_DENIED
        assert wire.call("delete_groups", 2, groups_names=[group]).results[0].error_code == 0
    with Wire(service.kafka) as wire:
        assert log_in(wire, "nonsense").error_code == SASL_FAILED
    wanted = {
        ("administration", principal, "Create", f"{topic}-audited", "CreateTopics"),
        ("denial", principal, "Delete", topic, "DeleteTopics"),
        ("denial", principal, "Read", topic, "OffsetDelete"),
        ("administration", principal, "Delete", group, "OffsetDelete"),
        ("administration", principal, "Delete", group, "DeleteGroups"),
        ("failed_login", None, None, None, "SaslAuthenticate"),
    }
    until(lambda: wanted <= _audited(service), 25, every=0.5)


def _audited(service: Service) -> set[tuple[Any, ...]]:
    return {
        (one["kind"], one["principal"], one["operation"], one["resource"], one["route"])
        for one in service.secured.events(method="KAFKA", source="127.0.0.1")
    }


def test_producing_needs_write(service: Service, topic: str) -> None:
    """librdkafka's producer is told so by the partition's error; with the right the record is there over HTTP."""
    principal, token = service.user()
    failed: list[Any] = []
    producer = Producer(service.settings(token) | {"message.timeout.ms": 5000})
    producer.produce(topic, b"v", on_delivery=lambda error, _: failed.append(error))
    producer.flush(15)
    assert failed[0] is not None
    service.secured.allow(principal, "Write", "topic", topic)
    delivered: list[Any] = []
    producer = Producer(service.settings(token) | {"enable.idempotence": False})
    producer.produce(topic, b"v", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(15) == 0
    assert delivered == [None]
