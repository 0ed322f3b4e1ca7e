"""Share groups by Kafka's own requests: records locked, acknowledged and given again; sessions; HTTP sees the same queue."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway
from tests.support.kafka_shares import ACCEPT, NONE, REJECT, RELEASE, RENEW, Batch, ShareMember, topic_id, until

INVALID_REQUEST, INVALID_CONFIG = 42, 40
FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID = 110, 25
GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP = 69, 68
INVALID_RECORD_STATE, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH = 121, 122, 123
UNKNOWN_TOPIC_ID, SHARE_SESSION_LIMIT_REACHED, INCONSISTENT_GROUP_PROTOCOL = 100, 133, 23
WAIT_SECONDS = 20


@pytest.fixture
def topic(gateway: KafkaGateway) -> str:
    return gateway.topic(f"s{secrets.token_hex(4)}")


@pytest.fixture
def group(gateway: KafkaGateway, topic: str) -> str:
    """A queue that begins at the topic's beginning."""
    name = f"g{secrets.token_hex(4)}"
    _put(gateway, name, topic)
    return name


def _put(gateway: KafkaGateway, name: str, *topics: str, **settings: Any) -> None:
    answer = gateway.http.put(f"/v1/queues/{name}", json={"topics": topics, "start": "earliest"} | settings)
    assert answer.status_code in (200, 201), answer.text


@pytest.fixture
def member(gateway: KafkaGateway, topic: str, group: str) -> Iterator[ShareMember]:
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic)) as made:
        yield made


def described(gateway: KafkaGateway, queue: str) -> dict[str, Any]:
    found: dict[str, Any] = gateway.http.get(f"/v1/queues/{queue}").json()
    return found


def test_records_are_acquired_and_accepted(gateway: KafkaGateway, topic: str, group: str, member: ShareMember) -> None:
    """With the next fetch, or by a request of their own."""
    gateway.produce(topic, "a", "b", "c")
    first = until(lambda: member.fetch(max_wait_ms=500))
    assert [(one.offset, one.value, one.deliveries) for one in first.records] == [
        (0, b"a", 1),
        (1, b"b", 1),
        (2, b"c", 1),
    ]
    assert first.lock_ms == 30_000
    assert member.fetch().records == []
    assert member.fetch({0: [(0, 1, [ACCEPT])]}).acknowledged == {0: 0}
    assert member.acknowledge({0: [(2, 2, [NONE])]}) == (0, {0: 0})
    partition = described(gateway, group)["partitions"][0]
    assert (partition["start_offset"], partition["in_flight"]) == (3, 0)


def test_each_record_has_its_own_fate(gateway: KafkaGateway, topic: str, group: str, member: ShareMember) -> None:
    """A released one comes again with count 2, a rejected one never, a renewed one stays locked."""
    gateway.produce(topic, "a", "b", "c", "d")
    until(lambda: member.fetch(max_wait_ms=500), count=4)
    assert member.acknowledge({0: [(0, 2, [ACCEPT, RELEASE, REJECT])]}) == (0, {0: 0})
    assert member.acknowledge({0: [(3, 3, [RENEW])]}, renews=True) == (0, {0: 0})
    again = until(lambda: member.fetch(max_wait_ms=500))
    assert [(one.offset, one.deliveries) for one in again.records] == [(1, 2)]
    assert member.acknowledge({0: [(1, 1, [ACCEPT]), (3, 3, [ACCEPT])]}) == (0, {0: 0})
    assert described(gateway, group)["partitions"][0]["start_offset"] == 4


def test_two_members_share_a_partition(gateway: KafkaGateway, topic: str, group: str, member: ShareMember) -> None:
    """Each record goes to one of them, whatever their versions."""
    gateway.produce(topic, *map(str, range(10)))
    with ShareMember(gateway.kafka, group, member.topic_id, version=1) as other:
        one = until(lambda: member.fetch(max_records=5, max_wait_ms=500), count=5)
        two = until(lambda: other.fetch(max_records=50, max_wait_ms=500), count=5)
    assert {record.offset for record in one.records} | {record.offset for record in two.records} == set(range(10))


def test_a_connection_that_ends_gives_back_what_it_has(
    gateway: KafkaGateway, topic: str, group: str, member: ShareMember
) -> None:
    """At once, and not when the lock ends; so does a session that its client closes."""
    gateway.produce(topic, "a")
    with ShareMember(gateway.kafka, group, member.topic_id) as other:
        until(lambda: other.fetch(max_wait_ms=500))
    again = until(lambda: member.fetch(max_wait_ms=1_000))
    assert [one.deliveries for one in again.records] == [2]
    assert member.acknowledge({}, epoch=-1) == (0, {})
    assert member.fetch(epoch=5).error == SHARE_SESSION_NOT_FOUND
    last = until(lambda: member.fetch(epoch=0, max_wait_ms=1_000))
    assert [one.deliveries for one in last.records] == [3]


def test_a_lock_that_has_ended_gives_the_record_to_another(
    gateway: KafkaGateway, topic: str, member: ShareMember
) -> None:
    """The late acknowledgement is told that the record's state is another."""
    _put(gateway, member.group, topic, lock_ms=1_000)
    gateway.produce(topic, "a")
    assert until(lambda: member.fetch(max_wait_ms=500)).lock_ms == 1_000
    with ShareMember(gateway.kafka, member.group, member.topic_id) as other:
        assert [one.deliveries for one in until(lambda: other.fetch(max_wait_ms=2_000)).records] == [2]
        assert member.acknowledge({0: [(0, 0, [ACCEPT])]}) == (0, {0: INVALID_RECORD_STATE})
        assert other.acknowledge({0: [(0, 0, [ACCEPT])]}) == (0, {0: 0})


def test_what_a_session_does_not_have_it_can_not_acknowledge(
    gateway: KafkaGateway, topic: str, group: str, member: ShareMember
) -> None:
    """Nothing of such a partition is settled; batches that make no sense are refused."""
    gateway.produce(topic, "a", "b")
    until(lambda: member.fetch(max_wait_ms=500), count=2)
    assert member.acknowledge({0: [(0, 2, [ACCEPT])]}) == (0, {0: INVALID_RECORD_STATE})
    wrong: list[list[Batch]] = [
        [(1, 0, [ACCEPT])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 0, [])],
        [(0, 0, [9])],
        [(0, 0, [-1])],
        [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])],
    ]
    for batches in wrong:
        assert member.acknowledge({0: batches}) == (0, {0: INVALID_REQUEST}), batches
    assert member.acknowledge({0: [(0, 0, [RENEW])]})[0] == INVALID_REQUEST
    assert described(gateway, group)["partitions"][0]["start_offset"] == 0
    with ShareMember(gateway.kafka, group, member.topic_id) as other:
        other.fetch()
        assert other.acknowledge({0: [(0, 0, [ACCEPT])]}) == (0, {0: INVALID_RECORD_STATE})


def test_a_session_expects_its_epochs(gateway: KafkaGateway, topic: str, member: ShareMember) -> None:
    """Any other is refused by its code, and changes nothing."""
    assert member.fetch(epoch=3).error == SHARE_SESSION_NOT_FOUND
    assert member.acknowledge({}, epoch=0)[0] == INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=0).error == 0
    assert member.fetch(epoch=2).error == INVALID_SHARE_SESSION_EPOCH
    assert member.fetch(epoch=1).error == 0
    assert member.fetch({0: [(0, 0, [ACCEPT])]}, epoch=0).error == INVALID_REQUEST
    assert member.fetch(epoch=-1).error == 0
    assert member.fetch(epoch=-1).error == SHARE_SESSION_NOT_FOUND


def test_a_connection_has_a_bounded_number_of_sessions(gateway: KafkaGateway, member: ShareMember) -> None:
    """The next one is refused."""
    codes = []
    for _ in range(17):
        member.member_id = str(uuid.uuid4())
        codes.append(member.fetch(epoch=0).error)
    assert codes == [0] * 16 + [SHARE_SESSION_LIMIT_REACHED]


def test_an_unknown_topic_is_told_and_holds_up_no_other(gateway: KafkaGateway, topic: str, member: ShareMember) -> None:
    """Its partition gets its code, in the answer that has the records of the other."""
    gateway.produce(topic, "a")
    unknown = {"topic_id": uuid.uuid4(), "partitions": [{"partition_index": 7, "acknowledgement_batches": ()}]}
    known = {"topic_id": member.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": ()}]}
    found = until(lambda: member.fetch(epoch=0, max_wait_ms=500, topics=[unknown, known]))
    assert found.errors == {0: 0, 7: UNKNOWN_TOPIC_ID}


def test_members_join_go_on_and_leave(gateway: KafkaGateway, topic: str) -> None:
    """The first one makes the queue, which begins at the end; each is told all partitions, and once only."""
    gateway.produce(topic, "before")
    other_topic = gateway.topic(f"{topic}-2", 3)
    group = f"g{secrets.token_hex(4)}"
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic)) as member:
        assert member.beat(3).error_code == UNKNOWN_MEMBER_ID
        assert member.beat(0).error_code == INVALID_REQUEST
        joined = member.beat(0, [topic])
        assert (joined.error_code, joined.member_id) == (0, member.member_id)
        assert [(one.topic_id, one.partitions) for one in joined.assignment.topic_partitions] == [
            (member.topic_id, (0,))
        ]
        settings = described(gateway, group)
        assert (settings["topics"], settings["start"], settings["max_deliveries"]) == ([topic], "latest", 5)
        gateway.produce(topic, "after")
        assert [one.value for one in until(lambda: member.fetch(max_wait_ms=500)).records] == [b"after"]

        goes_on = member.beat(joined.member_epoch)
        assert (goes_on.error_code, goes_on.assignment) == (0, None)
        more = member.beat(joined.member_epoch, [topic, other_topic])
        assert sorted(len(one.partitions) for one in more.assignment.topic_partitions) == [1, 3]
        assert described(gateway, group)["topics"] == [topic, other_topic]
        assert member.beat(joined.member_epoch).error_code == 0, "the answer may have been lost"
        assert member.beat(more.member_epoch + 1).error_code == FENCED_MEMBER_EPOCH
        assert member.beat(-1).member_epoch == -1
        assert member.beat(more.member_epoch).error_code == UNKNOWN_MEMBER_ID


def test_a_topic_that_comes_later_is_taken_up(gateway: KafkaGateway, topic: str, group: str) -> None:
    """The member is told of it by a later heartbeat, and the queue reads it."""
    later = f"{topic}-later"
    with ShareMember(gateway.kafka, group, None) as member:
        answer = member.beat(0, [topic, later])
        assert len(answer.assignment.topic_partitions) == 1
        gateway.topic(later, 2)
        deadline_s = time.monotonic() + WAIT_SECONDS
        while answer.assignment is None or len(answer.assignment.topic_partitions) == 1:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
            answer = member.beat(answer.member_epoch)
        assert described(gateway, group)["topics"] == [topic, later]


def test_tools_see_share_groups(gateway: KafkaGateway, topic: str, group: str) -> None:
    """Every queue is one; it is described and deleted as such."""
    with ShareMember(gateway.kafka, group, None) as member, Wire(gateway.kafka) as wire:

        def listed() -> list[Any]:
            answer = wire.call("list_groups", 5, states_filter=(), types_filter=("share",))
            return [one for one in answer.groups if one.group_id == group]

        def shown(name: str, *, with_operations: bool = False) -> Any:
            asked = {"group_ids": (name,), "include_authorized_operations": with_operations}
            return wire.call("share_group_describe", 1, **asked).groups[0]

        assert [(one.group_state, one.group_type, one.protocol_type) for one in listed()] == [
            ("Empty", "share", "share")
        ]
        assert (shown(group).group_state, shown("nowhere").error_code) == ("Empty", GROUP_ID_NOT_FOUND)
        assert shown(group).authorized_operations == shown("nowhere", with_operations=True).authorized_operations < 0
        assert shown(group, with_operations=True).authorized_operations == sum(1 << bit for bit in (3, 6, 8, 10, 11))
        epoch = member.beat(0, [topic]).member_epoch
        found = shown(group)
        assert (found.group_state, found.members[0].member_id) == ("Stable", member.member_id)
        assert found.members[0].assignment.topic_partitions[0].topic_name == topic
        assert [one.group_state for one in listed()] == ["Stable"]
        assert wire.call("delete_groups", 2, groups_names=(group,)).results[0].error_code == NON_EMPTY_GROUP
        assert member.beat(-1).error_code == 0, epoch
        assert wire.call("delete_groups", 2, groups_names=(group,)).results[0].error_code == 0
        assert listed() == []
        assert gateway.http.get(f"/v1/queues/{group}").status_code == 404


@pytest.mark.parametrize("kind", ["LogAppendTime", "CreateTime"])
def test_times_that_the_gateway_set_are_told_as_such(gateway: KafkaGateway, group: str, kind: str) -> None:
    """Records of several times come at once, each with its own, and with the topic's type."""
    topic = gateway.topic(f"t-{group}", message_timestamp_type=kind)
    _put(gateway, group, topic)
    for number in range(3):
        gateway.produce(topic, f"{number}-a", f"{number}-b")
    stored = gateway.http.get(f"/v1/topics/{topic}/partitions/0/records?offset=earliest").json()["records"]
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic)) as member:
        assert member.beat(0, [topic]).error_code == 0
        found = until(lambda: member.fetch(max_wait_ms=500), count=6).records
    assert [(one.offset, one.timestamp) for one in found] == [(one["offset"], one["timestamp"]) for one in stored]
    assert {one.is_append_time for one in found} == {kind == "LogAppendTime"}


def test_offsets_and_lag_are_told(gateway: KafkaGateway, topic: str, group: str, member: ShareMember) -> None:
    """Of all topics, or of those that are named; of others nothing is known."""
    gateway.produce(topic, "a", "b", "c")
    until(lambda: member.fetch(max_records=2, max_wait_ms=500), count=2)
    assert member.acknowledge({0: [(0, 1, [ACCEPT])]}) == (0, {0: 0})

    def told(name: str, topics: Any) -> Any:
        return wire.call("describe_share_group_offsets", 1, groups=[{"group_id": name, "topics": topics}]).groups[0]

    with Wire(gateway.kafka) as wire:
        (found,) = told(group, None).topics
        (partition,) = found.partitions
        assert (found.topic_name, found.topic_id) == (topic, member.topic_id)
        assert (partition.start_offset, partition.lag, partition.error_code) == (2, 1, 0)
        (named,) = told(group, [{"topic_name": topic, "partitions": (0, 9)}]).topics
        assert [one.start_offset for one in named.partitions] == [2, -1]
        (nowhere,) = told(group, [{"topic_name": "nowhere", "partitions": (0,)}]).topics
        assert nowhere.partitions[0].start_offset == -1
        assert told("nowhere", None).error_code == GROUP_ID_NOT_FOUND


def test_settings_of_a_share_group_are_its_queues(gateway: KafkaGateway, topic: str) -> None:
    """They may be set before there is a member; the start only then."""
    group = f"g{secrets.token_hex(4)}"
    with Wire(gateway.kafka) as wire, ShareMember(gateway.kafka, group, None) as member:

        def altered(**changes: str | None) -> int:
            configs = [
                {"name": name.replace("_", "."), "config_operation": 0 if value else 1, "value": value}
                for name, value in changes.items()
            ]
            asked = {"resource_type": 32, "resource_name": group, "configs": configs}
            answer = wire.call("incremental_alter_configs", 1, resources=[asked], validate_only=False)
            code: int = answer.responses[0].error_code
            return code

        def told() -> dict[str, tuple[str, int]]:
            asked = {"resource_type": 32, "resource_name": group, "configuration_keys": None}
            (found,) = wire.call("describe_configs", 4, resources=[asked], include_documentation=False).results
            return {one.name: (one.value, one.config_source) for one in found.configs}

        assert told()["share.auto.offset.reset"] == ("latest", 5)
        assert altered(share_auto_offset_reset="earliest", share_record_lock_duration_ms="15000") == 0
        assert told()["share.auto.offset.reset"] == ("earliest", 8)
        assert altered(share_record_lock_duration_ms="1") == INVALID_CONFIG
        assert altered(consumer_session_timeout_ms="1") == INVALID_CONFIG
        assert member.beat(0, [topic]).error_code == 0
        found = described(gateway, group)
        assert (found["topics"], found["start"], found["lock_ms"]) == ([topic], "earliest", 15_000)
        assert altered(share_auto_offset_reset=None) == INVALID_REQUEST
        assert altered(share_record_lock_duration_ms=None, share_delivery_count_limit="2") == 0
        found = described(gateway, group)
        assert (found["lock_ms"], found["max_deliveries"]) == (30_000, 2)


def test_a_group_of_consumers_is_no_share_group(gateway: KafkaGateway, topic: str) -> None:
    """A member of a share group is refused where consumers have committed offsets under the name."""
    group = f"g{secrets.token_hex(4)}"
    body = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert gateway.http.put(f"/v1/groups/{group}/offsets", json=body).status_code in (200, 204)
    with ShareMember(gateway.kafka, group, None) as member:
        assert member.beat(0, [topic]).error_code == INCONSISTENT_GROUP_PROTOCOL


def test_http_and_kafka_work_through_one_queue(
    gateway: KafkaGateway, topic: str, group: str, member: ShareMember
) -> None:
    """What one has locked the other does not get; what is settled is settled for both."""
    gateway.produce(topic, "a", "b")
    taken = gateway.http.post(f"/v1/queues/{group}:receive", json={"max_records": 1}).json()["records"]
    assert [one.offset for one in until(lambda: member.fetch(max_wait_ms=500)).records] == [1]
    one = {"topic": topic, "partition": 0, "offset": 0, "lease": taken[0]["lease"], "action": "accept"}
    assert gateway.http.post(f"/v1/queues/{group}:settle", json={"settlements": [one]}).json()["results"][0]["settled"]
    assert member.acknowledge({0: [(1, 1, [ACCEPT])]}) == (0, {0: 0})
    assert described(gateway, group)["partitions"][0]["start_offset"] == 2


def test_only_records_that_a_filter_lets_through_are_acquired(gateway: KafkaGateway, topic: str) -> None:
    """The ranges leave out what has no record, so a client sees no gaps."""
    group = f"g{secrets.token_hex(4)}"
    _put(gateway, group, topic, filter={"key": "yes"})
    body = {"records": [{"key": key, "value": str(number)} for number, key in enumerate(["yes", "no", "yes", "no"])]}
    assert gateway.http.post(f"/v1/topics/{topic}/partitions/0/records", json=body).status_code == 200
    with ShareMember(gateway.kafka, group, topic_id(gateway, topic)) as member:
        found = until(lambda: member.fetch(max_wait_ms=500), count=2)
        assert [one.offset for one in found.records] == [0, 2]
        assert member.acknowledge({0: [(0, 0, [ACCEPT]), (2, 2, [ACCEPT])]}) == (0, {0: 0})
        assert described(gateway, group)["partitions"][0]["start_offset"] >= 3
