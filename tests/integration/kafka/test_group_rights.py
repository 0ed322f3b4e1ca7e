"""Group calls by the rights of HTTP: Read, Describe and Delete of the group, Read of topics; and no member is another's."""

from __future__ import annotations

import uuid
from typing import Any

from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire, log_in
from tests.support.kafka_secured import Service

DENIED = KafkaError.group_authorization_failed


def _logged_in(wire: Wire, service: Service, *rights: tuple[str, str, str]) -> Wire:
    assert log_in(wire, service.user(*rights)[1]).error_code == 0
    return wire


def _join(wire: Wire, group: str, member_id: str = "") -> Any:
    asked: dict[str, Any] = {
        "group_id": group,
        "session_timeout": 20_000,
        "rebalance_timeout": 20_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return wire.call("join_group", 3, **asked)


def _commit(wire: Wire, group: str, topic: str) -> KafkaError:
    entry = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": None}
    asked: dict[str, Any] = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    answer = wire.call("offset_commit", 8, **asked, topics=[{"name": topic, "partitions": [entry]}])
    code: KafkaError = answer.topics[0].partitions[0].error_code
    return code


def test_without_rights_every_call_is_denied(service: Service, secured_wire: Wire, topic: str) -> None:
    """And lists show nothing."""
    wire, group = _logged_in(secured_wire, service), f"g-{uuid.uuid4().hex[:8]}"
    (found,) = wire.call("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators
    assert found.error_code is DENIED
    assert _join(wire, group).error_code is DENIED
    me = {"group_id": group, "generation_id": 1, "member_id": "m"}
    assert wire.call("heartbeat", 4, **me).error_code is DENIED
    assert wire.call("sync_group", 5, **me, assignments=[]).error_code is DENIED
    assert wire.call("leave_group", 5, group_id=group, members=[]).error_code is DENIED
    assert _commit(wire, group, topic) is DENIED
    (fetched,) = wire.call("offset_fetch", 8, groups=[{"group_id": group, "topics": None}]).groups
    assert fetched.error_code is DENIED
    described = wire.call("describe_groups", 5, groups=[group], include_authorized_operations=False)
    assert described.groups[0].error_code is DENIED
    assert wire.call("delete_groups", 2, groups_names=[group]).results[0].error_code is DENIED
    assert wire.call("offset_delete", 0, group_id=group, topics=[]).error_code is DENIED
    beat = wire.call("consumer_group_heartbeat", 1, group_id=group, member_id="m", member_epoch=0, topic_partitions=[])
    assert beat.error_code is DENIED
    assert wire.call("list_groups", 3).groups == ()


def test_a_topic_needs_its_own_right(service: Service, secured_wire: Wire, topic: str) -> None:
    """To commit for it, and to subscribe to it by name."""
    group = f"g-{uuid.uuid4().hex[:8]}"
    wire = _logged_in(secured_wire, service, ("Read", "group", group))
    assert _commit(wire, group, topic) is KafkaError.topic_authorization_failed
    beat: dict[str, Any] = {"group_id": group, "member_id": "m", "member_epoch": 0, "topic_partitions": []}
    answer = wire.call("consumer_group_heartbeat", 1, **beat, subscribed_topic_names=[topic])
    assert answer.error_code is KafkaError.topic_authorization_failed


def test_no_member_is_anothers(service: Service, secured_wire: Wire, topic: str) -> None:
    """Another principal with the same rights can neither speak for a member nor take it out."""
    group = f"g-{uuid.uuid4().hex[:8]}"
    rights = (("Read", "group", group), ("Read", "topic", topic))
    with Wire(service.kafka) as other:
        _logged_in(other, service, *rights)
        wire = _logged_in(secured_wire, service, *rights)
        joined = _join(wire, group)
        assert joined.error_code is KafkaError.none
        me = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        unknown = KafkaError.unknown_member_id
        assert other.call("heartbeat", 4, **me).error_code is unknown
        assert other.call("sync_group", 5, **me, assignments=[]).error_code is unknown
        assert _join(other, group, joined.member_id).error_code is unknown
        left = other.call("leave_group", 5, group_id=group, members=[{"member_id": joined.member_id}])
        assert left.members[0].error_code is unknown
        assert wire.call("heartbeat", 4, **me).error_code is KafkaError.none
