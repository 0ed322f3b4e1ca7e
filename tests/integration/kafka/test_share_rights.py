"""Share groups with ``auth=on``: every call needs Read or Describe of the group, records need Read of their topic besides."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire, log_in
from tests.support.kafka_secured import Service
from tests.support.kafka_shares import ACCEPT, ShareMember, until

GROUP_DENIED, TOPIC_DENIED = KafkaError.group_authorization_failed, KafkaError.topic_authorization_failed
NONE = KafkaError.none
_NOT_TOLD = -(2**31)
_PLAIN: dict[str, Any] = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def member(service: Service, topic: str, group: str) -> Iterator[ShareMember]:
    """It has not logged in."""
    with Wire(service.kafka) as wire:
        assert log_in(wire, service.user(("Describe", "topic", topic))[1]).error_code == 0
        (told,) = wire.call("metadata", 12, topics=[{"name": topic, "topic_id": None}], **_PLAIN).topics
    with ShareMember(service.kafka, group, told.topic_id) as made:
        yield made


def _codes(member: ShareMember, topic: str) -> dict[str, KafkaError]:
    """Of each call, as far as it is about the group."""
    described: dict[str, Any] = {"group_id": member.group, "topics": None}
    return {
        "heartbeat": member.beat(0, [topic]).error_code,
        "describe": member.wire.call(
            "share_group_describe", 1, group_ids=(member.group,), include_authorized_operations=False
        ).groups[0].error_code,
        "offsets": member.wire.call("describe_share_group_offsets", 0, groups=[described]).groups[0].error_code,
        "alter": member.wire.call("alter_share_group_offsets", 0, group_id=member.group, topics=()).error_code,
        "delete": member.wire.call("delete_share_group_offsets", 0, group_id=member.group, topics=()).error_code,
        "fetch": KafkaError(member.fetch(epoch=0).error),
        "acknowledge": KafkaError(member.acknowledge({}, epoch=-1)[0]),
    }  # fmt: skip


def test_each_call_needs_its_right_on_the_group(service: Service, topic: str, member: ShareMember) -> None:
    """All are denied without it; to see a group is not to read from it."""
    principal, token = service.user(("Read", "topic", topic))
    assert log_in(member.wire, token).error_code == 0
    assert set(_codes(member, topic).values()) == {GROUP_DENIED}
    assert service.secured.admin.http.get(f"/v1/queues/{member.group}").status_code == 404, "nothing was made"
    service.secured.allow(principal, "Describe", "group", member.group)
    codes = _codes(member, topic)
    reading = {"heartbeat", "fetch", "acknowledge", "alter"}
    assert {name for name, code in codes.items() if code is GROUP_DENIED} == reading | {"delete"}
    service.secured.allow(principal, "Read", "group", member.group)
    codes = _codes(member, topic)
    assert codes.pop("delete") is GROUP_DENIED
    assert codes.pop("alter") is KafkaError.non_empty_group
    assert set(codes.values()) == {NONE}
    service.secured.allow(principal, "Delete", "group", member.group)
    assert _codes(member, topic)["delete"] is KafkaError.non_empty_group


def test_a_group_s_description_says_what_the_caller_may_do(service: Service, topic: str, member: ShareMember) -> None:
    """Where it is asked, by the caller's rights; nothing of a group that it may not see."""
    principal, token = service.user(("Describe", "topic", topic))
    made = service.secured.admin.http.put(f"/v1/queues/{member.group}", json={"topics": [topic]})
    assert made.status_code == 201, made.text
    assert log_in(member.wire, token).error_code == 0

    def told() -> int:
        (one,) = member.wire.call(
            "share_group_describe", 1, group_ids=(member.group,), include_authorized_operations=True
        ).groups
        return int(one.authorized_operations)

    assert told() == _NOT_TOLD
    for right, bits in (
        ("Describe", (8, 10)),
        ("Read", (3, 8, 10)),
        ("Delete", (3, 6, 8, 10)),
        ("Alter", (3, 6, 8, 10, 11)),
    ):
        service.secured.allow(principal, right, "group", member.group)
        assert told() == sum(1 << bit for bit in bits)


def test_altering_offsets_needs_read_of_the_topic(service: Service, topic: str, member: ShareMember) -> None:
    """Without it the topic's offsets stay as they are, however the caller may read and delete the group."""
    rights = (("Read", "group", member.group), ("Delete", "group", member.group))
    principal, token = service.user(*rights)
    made = service.secured.admin.http.put(f"/v1/queues/{member.group}", json={"topics": [topic], "start": "earliest"})
    assert made.status_code == 201, made.text
    assert log_in(member.wire, token).error_code == 0
    moved = {"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": 5}]}

    def told() -> tuple[KafkaError, KafkaError]:
        altered = member.wire.call("alter_share_group_offsets", 0, group_id=member.group, topics=[moved])
        asked = [{"topic_name": topic}]
        deleted = member.wire.call("delete_share_group_offsets", 0, group_id=member.group, topics=asked)
        return altered.responses[0].partitions[0].error_code, deleted.responses[0].error_code

    assert told() == (TOPIC_DENIED, TOPIC_DENIED)
    assert service.secured.admin.http.get(f"/v1/queues/{member.group}").json()["topics"] == [topic]
    service.secured.allow(principal, "Read", "topic", topic)
    assert told() == (NONE, NONE)


def test_records_need_read_of_their_topic(service: Service, topic: str, member: ShareMember) -> None:
    """To subscribe, to get them, and to say what became of them, even of those that were got before the right went."""
    rights = (("Read", "group", member.group), ("Read", "topic", topic))
    principal, token = service.user(rights[0])
    made = service.secured.admin.http.put(f"/v1/queues/{member.group}", json={"topics": [topic], "start": "earliest"})
    assert made.status_code == 201, made.text
    assert log_in(member.wire, token).error_code == 0
    assert member.beat(0, [topic]).error_code is TOPIC_DENIED
    assert member.fetch(epoch=0).errors == {0: TOPIC_DENIED}
    service.secured.allow(principal, *rights[1])
    assert member.beat(0, [topic]).error_code is NONE
    assert service.secured.admin.produce(topic, {"value": "a"}).status_code == 200
    assert len(until(lambda: member.fetch(max_wait_ms=500)).records) == 1
    service.secured.forget(principal)
    service.secured.allow(principal, *rights[0])
    assert member.acknowledge({0: [(0, 0, [ACCEPT])]}) == (NONE, {0: TOPIC_DENIED})
    service.secured.allow(principal, *rights[1])
    assert member.acknowledge({0: [(0, 0, [ACCEPT])]}) == (NONE, {0: NONE})


def test_no_member_is_anothers(service: Service, topic: str, member: ShareMember) -> None:
    """Another principal with the same rights can't go on as it, nor take it out, nor acknowledge for it."""
    rights = (("Read", "group", member.group), ("Read", "topic", topic))
    assert log_in(member.wire, service.user(*rights)[1]).error_code == 0
    epoch = member.beat(0, [topic]).member_epoch
    assert member.fetch().error == 0
    with Wire(service.kafka) as wire:
        assert log_in(wire, service.user(*rights)[1]).error_code == 0
        mine, member.wire = member.wire, wire
        for other in (epoch, -1):
            assert member.beat(other).error_code is KafkaError.unknown_member_id
        assert member.acknowledge({}, epoch=1)[0] == KafkaError.share_session_not_found
        member.wire = mine
    assert member.beat(epoch).error_code is NONE


def test_a_member_without_alter_adds_no_topic(service: Service, topic: str, member: ShareMember) -> None:
    """The queue reads what it read, by no heartbeat of others either; with Alter the member's topic is added."""
    admin = service.secured.admin
    own = admin.topic()
    made = admin.http.put(f"/v1/queues/{member.group}", json={"topics": [topic]})
    assert made.status_code == 201, made.text
    principal, token = service.user(("Read", "topic", own), ("Read", "group", member.group))
    assert log_in(member.wire, token).error_code == 0
    assert member.beat(0, [own]).error_code is GROUP_DENIED
    with ShareMember(service.kafka, member.group, member.topic_id) as other:
        rights = [("Read", "topic", topic), ("Alter", "group", member.group), ("Read", "group", member.group)]
        assert log_in(other.wire, service.user(*rights)[1]).error_code == 0
        assert other.beat(0, [topic]).error_code is NONE
    assert admin.http.get(f"/v1/queues/{member.group}").json()["topics"] == [topic]
    service.secured.allow(principal, "Alter", "group", member.group)
    assert member.beat(0, [own]).error_code is NONE
    assert admin.http.get(f"/v1/queues/{member.group}").json()["topics"] == [topic, own]


def test_altering_offsets_adds_no_topic_without_alter(service: Service, topic: str, member: ShareMember) -> None:
    """The other way to have a queue read a topic: the group's other readers would be given its records, too."""
    admin = service.secured.admin
    own = admin.topic()
    assert admin.http.put(f"/v1/queues/{member.group}", json={"topics": [topic]}).status_code == 201
    principal, token = service.user(("Read", "topic", own), ("Read", "group", member.group))
    assert log_in(member.wire, token).error_code == 0
    moved = {"topic_name": own, "partitions": [{"partition_index": 0, "start_offset": 0}]}
    asked = {"group_id": member.group, "topics": [moved]}
    assert member.wire.call("alter_share_group_offsets", 0, **asked).error_code is GROUP_DENIED
    assert admin.http.get(f"/v1/queues/{member.group}").json()["topics"] == [topic]
    service.secured.allow(principal, "Alter", "group", member.group)
    assert member.wire.call("alter_share_group_offsets", 0, **asked).error_code is NONE
    assert set(admin.http.get(f"/v1/queues/{member.group}").json()["topics"]) == {topic, own}
