"""What a Kafka client may: judged for each request, by the rights and quotas of HTTP, and in the same audit trail."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
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
TOPIC_DENIED, CLUSTER_DENIED = 29, 31
DENIED = {"topic": TOPIC_DENIED, "group": 30, "cluster": CLUSTER_DENIED, "transactional_id": 53}
UNKNOWN_MEMBER, NO_SUCH_GROUP, NO_SUCH_PRODUCER = 25, 69, 49


class Ask(NamedTuple):
    """A request, the right that it needs, and where its answer has the error. ``beside``: rights that it needs, too."""

    name: str
    version: int
    right: tuple[str, str, str]
    values: dict[str, Any]
    error: Callable[[Any], int]
    allowed: int = 0
    """The error with the right: of what is asked for something that is not there."""
    beside: tuple[tuple[str, str, str], ...] = ()


_TOPIC = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
_CLUSTER = ("Alter", "cluster", "cluster")
_ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:nobody",
}
_ANY |= {"host_filter": None, "operation": 1, "permission_type": 1}
_ACL = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:nobody", "host": "*"}
_ACL |= {"operation": 3, "permission_type": 3}
_ENTITY = {"entity": ({"entity_type": "user", "entity_name": "nobody"},)}
_OP = {"key": "producer_byte_rate", "value": 1e6, "remove": False}


def _asks(topic: str) -> list[Ask]:
    of_topic = {"resource_type": 2, "resource_name": topic}
    setting = {"name": "retention.ms", "value": "1000"}
    partition = {"partition_index": 0, "offset": 0}
    return [
        Ask("create_topics", 7, ("Create", "topic", f"{topic}-new"), {"topics": [_TOPIC | {"name": f"{topic}-new"}]},
            lambda answer: answer.topics[0].error_code),
        Ask("create_topics", 5, ("Create", "topic", f"{topic}-not"),
            {"topics": [_TOPIC | {"name": f"{topic}-not"}], "validate_only": True},
            lambda answer: answer.topics[0].error_code),
        Ask("create_partitions", 3, ("Alter", "topic", topic),
            {"topics": [{"name": topic, "count": 2, "assignments": None}], "timeout": 0, "validate_only": False},
            lambda answer: answer.results[0].error_code),
        Ask("describe_configs", 4, ("Describe", "topic", topic), {"resources": [of_topic | {"configuration_keys": None}]},
            lambda answer: answer.results[0].error_code),
        Ask("describe_configs", 1, ("Describe", "cluster", "cluster"),
            {"resources": [{"resource_type": 4, "resource_name": "", "configuration_keys": None}]},
            lambda answer: answer.results[0].error_code),
        Ask("incremental_alter_configs", 1, ("Alter", "topic", topic),
            {"resources": [of_topic | {"configs": [setting | {"config_operation": 0}]}], "validate_only": False},
            lambda answer: answer.responses[0].error_code),
        Ask("alter_configs", 2, ("Alter", "topic", topic),
            {"resources": [of_topic | {"configs": [setting]}], "validate_only": False},
            lambda answer: answer.responses[0].error_code),
        Ask("delete_records", 2, ("Delete", "topic", topic),
            {"topics": [{"name": topic, "partitions": [partition]}], "timeout": 0},
            lambda answer: answer.topics[0].partitions[0].error_code),
        Ask("describe_log_dirs", 4, ("Describe", "cluster", "cluster"), {"topics": None}, lambda answer: answer.error_code),
        Ask("elect_leaders", 2, _CLUSTER, {"election_type": 0, "topic_partitions": None}, lambda answer: answer.error_code),
        Ask("describe_acls", 3, _CLUSTER, _ANY, lambda answer: answer.error_code),
        Ask("create_acls", 3, _CLUSTER, {"creations": [_ACL]}, lambda answer: answer.results[0].error_code),
        Ask("delete_acls", 3, _CLUSTER, {"filters": [_ANY]}, lambda answer: answer.filter_results[0].error_code),
        Ask("describe_client_quotas", 1, _CLUSTER, {"components": (), "strict": False}, lambda answer: answer.error_code),
        Ask("alter_client_quotas", 1, _CLUSTER, {"entries": [_ENTITY | {"ops": (_OP,)}], "validate_only": False},
            lambda answer: answer.entries[0].error_code),
        Ask("delete_topics", 6, ("Delete", "topic", topic), {"topics": [{"name": topic, "topic_id": None}], "timeout": 0},
            lambda answer: answer.responses[0].error_code),
    ]  # fmt: skip


_BATCH = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
_BATCH.append(0, 1_700_000_000_000, None, b"x", [])
RECORDS = bytes(_BATCH.build())


def _reads_and_writes(topic: str) -> list[Ask]:
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    limits = {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1000,
        "replica_id": -1,
        "rack_id": "",
        "forgotten_topics_data": (),
    }
    data = {"name": topic, "partition_data": [{"index": 0, "records": RECORDS}]}
    time_asked = {"partition_index": 0, "timestamp": -1}
    return [
        Ask("fetch", 12, ("Read", "topic", topic), limits | {"topics": [{"topic": topic, "partitions": [place]}]},
            lambda answer: answer.responses[0].partitions[0].error_code),
        Ask("produce", 9, ("Write", "topic", topic),
            {"transactional_id": None, "acks": -1, "timeout": 1000, "topic_data": [data]},
            lambda answer: answer.responses[0].partition_responses[0].error_code),
        Ask("list_offsets", 7, ("Describe", "topic", topic),
            {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [time_asked]}]},
            lambda answer: answer.topics[0].partitions[0].error_code),
        Ask("offset_for_leader_epoch", 4, ("Describe", "topic", topic),
            {"replica_id": -1, "topics": [{"topic": topic, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
            lambda answer: answer.topics[0].partitions[0].error_code),
    ]  # fmt: skip


def _of_groups(topic: str) -> list[Ask]:
    group = f"{topic}-group"
    read, describe, delete = (("Read", "group", group), ("Describe", "group", group), ("Delete", "group", group))
    me = {"group_id": group, "generation_id": 1, "member_id": "m"}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": None}
    committed = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    committed |= {"topics": [{"name": topic, "partitions": [offset]}]}
    joined = {"session_timeout": 20_000, "rebalance_timeout": 20_000, "protocol_type": "consumer"}
    joined |= {"group_id": group, "member_id": "m", "protocols": [{"name": "range", "metadata": b""}]}
    return [
        Ask("find_coordinator", 4, describe, {"key_type": 0, "coordinator_keys": [group]},
            lambda answer: answer.coordinators[0].error_code),
        Ask("join_group", 3, read, joined, lambda answer: answer.error_code, UNKNOWN_MEMBER),
        Ask("sync_group", 5, read, me | {"assignments": []}, lambda answer: answer.error_code, UNKNOWN_MEMBER),
        Ask("heartbeat", 4, read, me, lambda answer: answer.error_code, UNKNOWN_MEMBER),
        Ask("leave_group", 5, read, {"group_id": group, "members": []}, lambda answer: answer.error_code),
        Ask("offset_commit", 8, ("Read", "topic", topic), committed,
            lambda answer: answer.topics[0].partitions[0].error_code, beside=(read,)),
        Ask("offset_fetch", 8, describe, {"groups": [{"group_id": group, "topics": None}]},
            lambda answer: answer.groups[0].error_code),
        Ask("describe_groups", 5, describe, {"groups": [group], "include_authorized_operations": False},
            lambda answer: answer.groups[0].error_code),
        Ask("delete_groups", 2, delete, {"groups_names": [group]}, lambda answer: answer.results[0].error_code,
            NO_SUCH_GROUP),
        Ask("offset_delete", 0, delete, {"group_id": group, "topics": []}, lambda answer: answer.error_code,
            NO_SUCH_GROUP),
        Ask("consumer_group_heartbeat", 1, read,
            {"group_id": group, "member_id": "m", "member_epoch": 5, "topic_partitions": []},
            lambda answer: answer.error_code, UNKNOWN_MEMBER),
    ]  # fmt: skip


def _of_transactions(topic: str) -> list[Ask]:
    own, group = f"{topic}-id", f"{topic}-group"
    write, producer = ("Write", "transactional_id", own), {"producer_id": 5, "producer_epoch": 0}
    partitions = {"v3_and_below_transactional_id": own, "v3_and_below_producer_id": 5, "v3_and_below_producer_epoch": 0}
    partitions |= {"v3_and_below_topics": [{"name": topic, "partitions": [0]}]}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": None}
    offsets = {"transactional_id": own, "group_id": group, "generation_id": -1, "member_id": "", **producer}
    offsets |= {"topics": [{"name": topic, "partitions": [offset]}]}
    return [
        Ask("init_producer_id", 4, write,
            {"transactional_id": own, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1},
            lambda answer: answer.error_code),
        Ask("add_partitions_to_txn", 3, write, partitions,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            NO_SUCH_PRODUCER, beside=(("Write", "topic", topic),)),
        Ask("add_offsets_to_txn", 3, write, producer | {"transactional_id": own, "group_id": group},
            lambda answer: answer.error_code, NO_SUCH_PRODUCER, beside=(("Read", "group", group),)),
        Ask("txn_offset_commit", 3, write, offsets, lambda answer: answer.topics[0].partitions[0].error_code,
            NO_SUCH_PRODUCER, beside=(("Read", "group", group), ("Read", "topic", topic))),
        Ask("end_txn", 3, write, producer | {"transactional_id": own, "committed": True},
            lambda answer: answer.error_code, NO_SUCH_PRODUCER),
        Ask("find_coordinator", 4, ("Describe", "transactional_id", own), {"key_type": 1, "coordinator_keys": [own]},
            lambda answer: answer.coordinators[0].error_code),
    ]  # fmt: skip


def _all(topic: str) -> list[Ask]:
    return [*_reads_and_writes(topic), *_of_groups(topic), *_of_transactions(topic), *_asks(topic)]


@pytest.mark.parametrize("number", range(len(_all(""))), ids=lambda number: _all("")[number].name)
def test_each_request_needs_its_right_and_no_other(service: Service, topic: str, number: int) -> None:
    """Without it the answer is Kafka's refusal, with it the request is done; the right is the one of the HTTP route."""
    ask = _all(topic)[number]
    denied = DENIED[ask.right[1]]
    others = [("Read", "topic", "other"), ("Create", "cluster", "cluster")]
    if ask.right[:2] != ("Describe", "group"):  # to write is to see
        others.append(("Write", "group", "*"))
    principal, token = service.user(*others, *ask.beside)
    with Wire(service.kafka) as wire:
        assert log_in(wire, token).error_code == 0
        assert ask.error(wire.call(ask.name, ask.version, **ask.values)) == denied
        service.secured.allow(principal, *ask.right)
        assert ask.error(wire.call(ask.name, ask.version, **ask.values)) == ask.allowed
    with Wire(service.kafka) as wire:
        assert log_in(wire, service.user(("All", "topic", "*"), *ask.beside)[1]).error_code == 0
        allowed = ask.right[1] == "topic"
        assert (ask.error(wire.call(ask.name, ask.version, **ask.values)) == denied) != allowed


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
