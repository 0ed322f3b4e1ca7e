"""Every version of every request about groups is answered in that version, whether it succeeds or is refused."""

from __future__ import annotations

import secrets
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.calls.table import CALLS
from tests.support.kafka_frames import KEYS, Wire
from tests.support.kafka_gateway import KafkaGateway

FIND, COMMIT, FETCH, ERASE = "find_coordinator", "offset_commit", "offset_fetch", "offset_delete"
JOIN, HEARTBEAT, LEAVE, SYNC = "join_group", "heartbeat", "leave_group", "sync_group"
DESCRIBE, LIST, DELETE = "describe_groups", "list_groups", "delete_groups"
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = "consumer_group_heartbeat", "consumer_group_describe"


def _versions(name: str) -> range:
    return range(CALLS[KEYS[name]].version_min, CALLS[KEYS[name]].version_max + 1)


def _group() -> str:
    return f"g-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def topic(gateway: KafkaGateway) -> tuple[str, UUID]:
    """A topic of one partition, and its id."""
    name = gateway.topic(f"t{secrets.token_hex(4)}")
    with Wire(gateway.kafka) as wire:
        (found,) = wire.call(
            "metadata",
            12,
            topics=[{"name": name, "topic_id": None}],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        ).topics
    assert found.topic_id is not None
    return name, found.topic_id


def _joining(group: str, member_id: str = "", **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00"}],
        **more,
    }


def _join(wire: Wire, version: int, group: str, **more: Any) -> Any:
    joined = wire.call(JOIN, version, **_joining(group, **more))
    if joined.error_code is KafkaError.member_id_required:
        joined = wire.call(JOIN, version, **_joining(group, joined.member_id, **more))
    return joined


@pytest.mark.parametrize("version", _versions(FIND))
def test_find_coordinator(gateway: KafkaGateway, version: int) -> None:
    """The gateway itself; a kind that is not there, and an empty name, are refused."""
    with Wire(gateway.kafka) as wire:
        for key, code in ((_group(), KafkaError.none), ("", KafkaError.invalid_request)):
            answer = wire.call(FIND, version, key=key, key_type=0, coordinator_keys=[key])
            (found,) = getattr(answer, "coordinators", (answer,))
            assert found.error_code is code
            if code is KafkaError.none:
                assert f"{found.host}:{found.port}" == gateway.kafka


@pytest.mark.parametrize("version", _versions(JOIN))
def test_a_member_of_the_classic_protocol(gateway: KafkaGateway, version: int) -> None:
    """It joins, syncs, is alive and leaves."""
    group = _group()
    sync, beat, leave = (min(version, CALLS[KEYS[name]].version_max) for name in (SYNC, HEARTBEAT, LEAVE))
    with Wire(gateway.kafka) as wire:
        refused = wire.call(JOIN, version, **_joining(group, "m-unknown"))
        assert refused.error_code is KafkaError.unknown_member_id
        joined = _join(wire, version, group)
        assert joined.error_code is KafkaError.none
        assert joined.leader == joined.member_id
        assert [member.member_id for member in joined.members] == [joined.member_id]
        me = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        synced = wire.call(SYNC, sync, **me, assignments=[{"member_id": joined.member_id, "assignment": b"plan"}])
        assert (synced.error_code, synced.assignment) == (KafkaError.none, b"plan")
        assert wire.call(HEARTBEAT, beat, **me).error_code is KafkaError.none
        stale = wire.call(HEARTBEAT, beat, **(me | {"generation_id": 7}))
        assert stale.error_code is KafkaError.illegal_generation
        assert wire.call(SYNC, sync, **(me | {"generation_id": 7}), assignments=[]).error_code is (
            KafkaError.illegal_generation
        )
        leaving = {"group_id": group, "member_id": joined.member_id, "members": [{"member_id": joined.member_id}]}
        assert wire.call(LEAVE, leave, **leaving).error_code is KafkaError.none
        again = wire.call(LEAVE, leave, **leaving)
        code = again.error_code if leave < 3 else again.members[0].error_code
        assert code is KafkaError.unknown_member_id


def test_names_and_sessions_that_no_group_may_have(gateway: KafkaGateway) -> None:
    """Each with Kafka's own error."""
    with Wire(gateway.kafka) as wire:
        assert wire.call(JOIN, 9, **_joining("")).error_code is KafkaError.invalid_group_id
        short = wire.call(JOIN, 9, **_joining(_group(), session_timeout=5))
        assert short.error_code is KafkaError.invalid_session_timeout
        kind = wire.call(JOIN, 9, **_joining(_group(), protocols=[]))
        assert kind.error_code is KafkaError.inconsistent_group_protocol


@pytest.mark.parametrize("version", _versions(COMMIT))
def test_offset_commit(gateway: KafkaGateway, topic: tuple[str, UUID], version: int) -> None:
    """Of a group without members; what can't be committed has its own error and stops nothing."""
    name, topic_id = topic
    group = _group()
    good = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "x"}
    bad = good | {"partition_index": 9}
    long = good | {"committed_metadata": "x" * 5_000}
    asked: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": name, "topic_id": topic_id, "partitions": [good, bad]}],
    }
    with Wire(gateway.kafka) as wire:
        (answer,) = wire.call(COMMIT, version, **asked).topics
        codes = [one.error_code for one in answer.partitions]
        assert codes == [KafkaError.none, KafkaError.unknown_topic_or_partition]
        asked["topics"] = [
            {"name": name, "topic_id": topic_id, "partitions": [long]},
            {"name": "missing", "topic_id": UUID(int=7), "partitions": [good]},
        ]
        codes = [topic.partitions[0].error_code for topic in wire.call(COMMIT, version, **asked).topics]
        assert codes[0] is KafkaError.offset_metadata_too_large
        assert codes[1] in (KafkaError.unknown_topic_or_partition, KafkaError.unknown_topic_id)
        asked |= {"generation_id_or_member_epoch": 1, "member_id": "m", "topics": asked["topics"][:1]}
        asked["topics"] = [{"name": name, "topic_id": topic_id, "partitions": [good]}]
        (answer,) = wire.call(COMMIT, version, **asked).topics
        assert answer.partitions[0].error_code is KafkaError.unknown_member_id
    offsets = gateway.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [(row["offset"], row["metadata"]) for row in offsets] == [(5, "x")]


@pytest.mark.parametrize("version", _versions(FETCH))
def test_offset_fetch(gateway: KafkaGateway, topic: tuple[str, UUID], version: int) -> None:
    """Named partitions, all that are committed, and a group that is not there."""
    name, topic_id = topic
    group = _group()
    committed = {"offsets": [{"topic": name, "partition": 0, "offset": 3, "metadata": "m"}]}
    assert gateway.http.put(f"/v1/groups/{group}/offsets", json=committed).status_code == 200
    ids = {"topic_id": topic_id} if version >= 8 else {}
    topics = [{"name": name, "partition_indexes": [0, 1], **ids}]

    def fetched(wire: Wire, name: str, topics: Any) -> Any:
        groups = [{"group_id": name, "topics": topics}]
        answer = wire.call(FETCH, version, group_id=name, topics=topics, groups=groups, require_stable=True)
        (found,) = getattr(answer, "groups", (answer,))
        assert getattr(found, "error_code", KafkaError.none) is KafkaError.none
        return found.topics

    with Wire(gateway.kafka) as wire:
        (found,) = fetched(wire, group, topics)
        assert [(one.committed_offset, one.metadata) for one in found.partitions] == [(3, "m"), (-1, "")]
        (found,) = fetched(wire, "no-such-group", topics)
        assert [one.committed_offset for one in found.partitions] == [-1, -1]
        if version >= 2:
            (found,) = fetched(wire, group, None)
            assert [one.committed_offset for one in found.partitions] == [3]
            assert getattr(found, "name", name) == name


@pytest.mark.parametrize("version", _versions(DESCRIBE))
def test_describe_groups(gateway: KafkaGateway, version: int) -> None:
    """One of HTTP as a consumer would be; one that is not there is dead."""
    name, group = gateway.topic(f"t{secrets.token_hex(4)}"), _group()
    assert gateway.http.post(f"/v1/groups/{group}/members", json={"topics": [name]}).status_code == 201
    with Wire(gateway.kafka) as wire:
        found, missing = wire.call(
            DESCRIBE, version, groups=[group, "no-such-group"], include_authorized_operations=False
        ).groups
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    assert name.encode() in found.members[0].member_assignment
    assert missing.group_state == "Dead"
    assert missing.error_code is (KafkaError.group_id_not_found if version >= 6 else KafkaError.none)


@pytest.mark.parametrize("version", _versions(LIST))
def test_list_groups(gateway: KafkaGateway, topic: tuple[str, UUID], version: int) -> None:
    """Those of every kind; filters count where the version has them."""
    group = _group()
    committed = {"offsets": [{"topic": topic[0], "partition": 0, "offset": 1}]}
    assert gateway.http.put(f"/v1/groups/{group}/offsets", json=committed).status_code == 200
    with Wire(gateway.kafka) as wire:
        names = {one.group_id for one in wire.call(LIST, version, states_filter=["Empty"], types_filter=[]).groups}
        assert group in names
        if version >= 4:
            names = {one.group_id for one in wire.call(LIST, version, states_filter=["Stable"], types_filter=[]).groups}
            assert group not in names


@pytest.mark.parametrize("version", _versions(DELETE))
def test_delete_groups(gateway: KafkaGateway, topic: tuple[str, UUID], version: int) -> None:
    """One that is empty, one with a member, and one that is not there."""
    empty, full = _group(), _group()
    committed = {"offsets": [{"topic": topic[0], "partition": 0, "offset": 1}]}
    assert gateway.http.put(f"/v1/groups/{empty}/offsets", json=committed).status_code == 200
    assert gateway.http.post(f"/v1/groups/{full}/members", json={"topics": [topic[0]]}).status_code == 201
    with Wire(gateway.kafka) as wire:
        results = wire.call(DELETE, version, groups_names=[empty, full, "no-such-group"]).results
    assert [one.error_code for one in results] == [
        KafkaError.none,
        KafkaError.non_empty_group,
        KafkaError.group_id_not_found,
    ]
    assert gateway.http.get(f"/v1/groups/{empty}").status_code == 404


def test_offset_delete(gateway: KafkaGateway, topic: tuple[str, UUID]) -> None:
    """Of topics that no member subscribes to."""
    name, group = topic[0], _group()
    committed = {"offsets": [{"topic": name, "partition": 0, "offset": 1}]}
    asked = {"group_id": group, "topics": [{"name": name, "partitions": [{"partition_index": 0}]}]}
    with Wire(gateway.kafka) as wire:
        assert wire.call(ERASE, 0, **asked).error_code is KafkaError.group_id_not_found
        assert gateway.http.put(f"/v1/groups/{group}/offsets", json=committed).status_code == 200
        joined = gateway.http.post(f"/v1/groups/{group}/members", json={"topics": [name]}).json()
        (answer,) = wire.call(ERASE, 0, **asked).topics
        assert answer.partitions[0].error_code is KafkaError.group_subscribed_to_topic
        gateway.http.delete(f"/v1/groups/{group}/members/{joined['member_id']}")
        (answer,) = wire.call(ERASE, 0, **asked).topics
        assert answer.partitions[0].error_code is KafkaError.none
    assert gateway.http.get(f"/v1/groups/{group}/offsets").json() == {"offsets": []}


@pytest.mark.parametrize("version", _versions(CONSUMER_HEARTBEAT))
def test_a_member_of_the_consumer_protocol(gateway: KafkaGateway, topic: tuple[str, UUID], version: int) -> None:
    """It joins, is described, is fenced with another epoch, and leaves. No classic member but a consumer can join beside it."""
    name, topic_id = topic
    group = _group()
    beat: dict[str, Any] = {
        "group_id": group,
        "member_id": "m+/1",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": [name],
        "topic_partitions": [],
    }
    with Wire(gateway.kafka) as wire:
        joined = wire.call(CONSUMER_HEARTBEAT, version, **beat)
        assert (joined.error_code, joined.member_id, joined.member_epoch) == (KafkaError.none, "m+/1", 1)
        assert [(one.topic_id, one.partitions) for one in joined.assignment.topic_partitions] == [(topic_id, (0,))]
        (described,) = wire.call(
            CONSUMER_DESCRIBE, version, group_ids=[group], include_authorized_operations=False
        ).groups
        assert described.members[0].assignment.topic_partitions[0].topic_name == name
        later = {"group_id": group, "member_id": "m+/1", "topic_partitions": None, "subscribed_topic_names": None}
        again = wire.call(CONSUMER_HEARTBEAT, version, **later, member_epoch=1)
        assert (again.error_code, again.assignment) == (KafkaError.none, None)
        fenced = wire.call(CONSUMER_HEARTBEAT, version, **later, member_epoch=5)
        assert fenced.error_code is KafkaError.fenced_member_epoch
        classic = wire.call(JOIN, 9, **_joining(group, protocol_type="connect"))
        assert classic.error_code is KafkaError.inconsistent_group_protocol
        stale = wire.call(
            COMMIT,
            9,
            group_id=group,
            generation_id_or_member_epoch=9,
            member_id="m+/1",
            topics=[
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 1,
                            "committed_leader_epoch": -1,
                            "committed_metadata": None,
                        }
                    ],
                }
            ],
        )
        assert stale.topics[0].partitions[0].error_code is KafkaError.stale_member_epoch
        left = wire.call(CONSUMER_HEARTBEAT, version, **later, member_epoch=-1)
        assert (left.error_code, left.member_epoch) == (KafkaError.none, -1)
        if version:
            wrong = wire.call(CONSUMER_HEARTBEAT, version, **beat, subscribed_topic_regex="(")
            assert wrong.error_code is KafkaError.invalid_regular_expression
        missing = wire.call(CONSUMER_DESCRIBE, version, group_ids=["none"], include_authorized_operations=False)
        assert missing.groups[0].error_code is KafkaError.group_id_not_found
