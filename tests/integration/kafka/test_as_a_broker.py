"""Answers that Apache Kafka 4.3 gives, in requests that no client library sends by itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway

TOPIC, GROUP, SET, SUBTRACT = 2, 32, 0, 3
GROUP_OPERATIONS, CLUSTER_OPERATIONS = 3400, 8096
"""What a broker without an authorizer tells."""


def batch(records: Sequence[tuple[bytes | None, int]], codec: int = 0) -> bytes:
    """Records of a key and a time."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for place, (key, at_ms) in enumerate(records):
        builder.append(place, at_ms, key, b"v", [])
    return bytes(builder.build())


def produced(wire: Wire, topic: str, records: bytes, version: int = 9) -> Any:
    """The answer for partition 0."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    answer = wire.call(
        "produce", version, transactional_id=None, acks=-1, timeout=timedelta(seconds=9), topic_data=data
    )
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("count", [1, 20])
def test_records_without_a_key_are_named(gateway: KafkaGateway, wire: Wire, count: int) -> None:
    """KIP-467: the place of each, and words for the whole batch."""
    name = f"named-{count}"
    gateway.topic(name, 1, **{"cleanup.policy": "compact"})
    now_ms = int(time.time() * 1000)
    answer = produced(wire, name, batch([(b"k" if place % 4 else None, now_ms) for place in range(count)]))
    assert answer.error_code is ErrorCode.invalid_record
    assert [one.batch_index for one in answer.record_errors] == list(range(0, count, 4))
    assert all("key" in one.batch_index_error_message for one in answer.record_errors)
    assert "key" in answer.error_message
    assert produced(wire, name, batch([(None, now_ms)]), version=7).error_code is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", [0, 1])
def test_records_with_a_time_out_of_range_are_named(gateway: KafkaGateway, wire: Wire, codec: int) -> None:
    """Those alone, each with its time."""
    name = f"timely-{codec}"
    gateway.topic(name, 1, **{"message.timestamp.after.max.ms": 60_000, "message.timestamp.before.max.ms": 60_000})
    now_ms = int(time.time() * 1000)
    answer = produced(wire, name, batch([(b"k", now_ms), (b"k", now_ms - 10**6), (b"k", now_ms + 10**9)], codec))
    assert answer.error_code is ErrorCode.invalid_timestamp
    assert [one.batch_index for one in answer.record_errors] == [1, 2]
    assert str(now_ms - 10**6) in answer.record_errors[0].batch_index_error_message
    fine = produced(wire, name, batch([(b"k", now_ms)], codec))
    assert (fine.error_code, fine.record_errors, fine.error_message) == (ErrorCode.none, (), None)


@pytest.mark.parametrize(("operation", "value"), [(SET, ""), (SUBTRACT, "delete")])
def test_the_cleanup_policy_can_be_emptied(gateway: KafkaGateway, wire: Wire, operation: int, value: str) -> None:
    """Then nothing is removed, and the emptiness is told as set."""
    name = f"emptied-{operation}"
    gateway.topic(name, 1, **{"cleanup.policy": "delete"})
    changed = [{"name": "cleanup.policy", "config_operation": operation, "value": value}]
    resource = {"resource_type": TOPIC, "resource_name": name}
    resources = [resource | {"configs": changed}]
    answer = wire.call("incremental_alter_configs", 1, resources=resources, validate_only=False)
    assert answer.responses[0].error_code is ErrorCode.none, answer
    asked = [resource | {"configuration_keys": ["cleanup.policy"]}]
    told = wire.call("describe_configs", 4, resources=asked, include_synonyms=False, include_documentation=False)
    (one,) = told.results[0].configs
    assert (one.value, one.config_source) == ("", 1)


def test_a_groups_own_settings_are_told_as_they_hold(wire: Wire) -> None:
    """And taken with that value only."""
    resource = {"resource_type": GROUP, "resource_name": "own-settings"}
    names = ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]
    asked = [resource | {"configuration_keys": names}]
    told = wire.call("describe_configs", 4, resources=asked, include_synonyms=False, include_documentation=False)
    values = {one.name: one.value for one in told.results[0].configs}
    assert sorted(values) == sorted(names)
    for value, expected in ((values[names[0]], ErrorCode.none), ("50001", ErrorCode.invalid_config)):
        resources = [resource | {"configs": [{"name": names[0], "config_operation": SET, "value": value}]}]
        answer = wire.call("incremental_alter_configs", 1, resources=resources, validate_only=False)
        assert answer.responses[0].error_code is expected


def test_without_rights_there_are_no_quotas_and_all_operations(gateway: KafkaGateway, wire: Wire) -> None:
    """With ``auth=off``, as by a broker without an authorizer; who does not ask is told nothing."""
    gateway.topic("operated", 1)
    quotas = wire.call("describe_client_quotas", 1, components=(), strict=False)
    assert (quotas.error_code, quotas.entries) == (ErrorCode.none, ())
    cluster = wire.call("describe_cluster", 0, include_cluster_authorized_operations=True)
    assert cluster.cluster_authorized_operations == CLUSTER_OPERATIONS
    for version, asks in ((8, True), (10, True), (9, False)):
        told = wire.call(
            "metadata",
            version,
            topics=(),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=asks,
            include_topic_authorized_operations=False,
        )
        assert told.cluster_authorized_operations == (CLUSTER_OPERATIONS if asks else -(2**31)), version
    joined(wire, "operated", "operated")
    for asks, expected in ((True, GROUP_OPERATIONS), (False, -(2**31))):
        for name, version in (("describe_groups", 5), ("consumer_group_describe", 1)):
            ids = {"groups" if name == "describe_groups" else "group_ids": ["operated"]}
            answer = wire.call(name, version, **ids, include_authorized_operations=asks)
            assert answer.groups[0].authorized_operations == expected, name


def test_static_members_of_a_consumer_group_are_removed_by_their_instance_id(gateway: KafkaGateway, wire: Wire) -> None:
    """As ``removeMembersFromConsumerGroup`` asks. Each member has its own answer."""
    gateway.topic("removed", 1)
    static = joined(wire, "removed", "removed", "i1")
    kept = joined(wire, "removed", "removed", "i2")
    plain = joined(wire, "removed", "removed")
    leaving = [("", "i1"), ("", "nobody"), ("stranger", None), (plain, None), ("stranger", "i2")]
    answer = wire.call(
        "leave_group",
        5,
        group_id="removed",
        members=[{"member_id": one, "group_instance_id": instance, "reason": "test"} for one, instance in leaving],
    )
    unknown, fenced = ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id
    codes = [one.error_code for one in answer.members]
    assert codes == [ErrorCode.none, unknown, unknown, ErrorCode.none, fenced]
    described = wire.call("consumer_group_describe", 1, group_ids=["removed"], include_authorized_operations=False)
    assert [one.member_id for one in described.groups[0].members] == [kept]
    assert static != kept


def test_a_members_pattern_is_in_the_syntax_of_re2(gateway: KafkaGateway, wire: Wire) -> None:
    """A member is given the topics that match; what RE2 refuses is refused."""
    gateway.topic("patterned-77", 1)
    refused = ("patterned-(?=7)77", r"patterned-\d++")
    codes = [beaten(wire, "patterned", subscribed_topic_regex=one).error_code for one in refused]
    assert codes == [ErrorCode.invalid_regular_expression] * 2
    answer = beaten(wire, "patterned", subscribed_topic_regex=r"\Qpatterned\E-[[:digit:]]\pN\z")
    assert answer.error_code is ErrorCode.none, answer
    (topic,) = answer.assignment.topic_partitions
    assert topic.partitions == (0,)


def joined(wire: Wire, group: str, topic: str, instance_id: str | None = None) -> str:
    """The id of a new member to which the gateway assigns partitions."""
    answer = beaten(wire, group, instance_id=instance_id, subscribed_topic_names=[topic])
    assert answer.error_code is ErrorCode.none, answer
    member_id: str = answer.member_id
    return member_id


def beaten(wire: Wire, group: str, **wish: Any) -> Any:
    """The answer to a new member."""
    plain = {"instance_id": None, "subscribed_topic_names": None, "subscribed_topic_regex": None}
    return wire.call(
        "consumer_group_heartbeat",
        1,
        group_id=group,
        member_id=uuid.uuid4().hex,
        member_epoch=0,
        rack_id=None,
        rebalance_timeout=timedelta(seconds=60),
        server_assignor=None,
        topic_partitions=[],
        **(plain | wish),
    )
