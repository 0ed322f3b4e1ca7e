"""Two gateways: each names the group's coordinator, the other refuses; when it is killed the members go on where they were."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.waiting import until

FIND, COMMIT, JOIN = "find_coordinator", "offset_commit", "join_group"
HEARTBEAT, SYNC, LIST = "heartbeat", "sync_group", "list_groups"
SETTINGS = ("--heartbeat-ms", "300")
WAIT_SECONDS = 30


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[KafkaGateway]]:
    """Two over one store, which know each other."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(kafka_gateway(tmp_path / "store", tmp_path / f"log{number}", *SETTINGS))
            for number in range(2)
        ]
        until(lambda: all(_coordinator(one, "some-group") for one in started) and len(_brokers(started[0])) == 2)
        yield started


def _brokers(gateway: KafkaGateway) -> set[str]:
    with Wire(gateway.kafka) as wire:
        answer = wire.call(
            "metadata", 12, topics=[], allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
    return {f"{one.host}:{one.port}" for one in answer.brokers}


def _coordinator(gateway: KafkaGateway, group: str) -> str:
    with Wire(gateway.kafka) as wire:
        (found,) = wire.call(FIND, 4, key_type=0, coordinator_keys=[group]).coordinators
    return f"{found.host}:{found.port}" if found.error_code is KafkaError.none else ""


def _commit(wire: Wire, group: str, topic: str, member_id: str, generation: int, offset: int) -> KafkaError:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": None,
    }
    (answer,) = wire.call(
        COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[{"name": topic, "partitions": [partition]}],
    ).topics
    code: KafkaError = answer.partitions[0].error_code
    return code


def _joined(wire: Wire, group: str) -> Any:
    asked: dict[str, Any] = {
        "group_id": group,
        "session_timeout": 20_000,
        "rebalance_timeout": 20_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    return wire.call(JOIN, 3, **asked)


def test_members_go_on_when_their_coordinator_is_killed(gateways: list[KafkaGateway]) -> None:
    """Same member, same generation, no rebalance; offsets are there, and an older generation may not commit."""
    topic = gateways[0].topic(f"t{secrets.token_hex(4)}")
    group = f"g-{secrets.token_hex(4)}"
    owner_address = _coordinator(gateways[0], group)
    assert _coordinator(gateways[1], group) == owner_address
    owner, other = sorted(gateways, key=lambda one: one.kafka != owner_address)
    with Wire(owner.kafka) as wire, Wire(other.kafka) as wrong:
        assert _joined(wrong, group).error_code is KafkaError.not_coordinator
        joined = _joined(wire, group)
        me = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        plan = [{"member_id": joined.member_id, "assignment": b"plan"}]
        assert wire.call(SYNC, 3, **me, assignments=plan).assignment == b"plan"
        assert wrong.call(HEARTBEAT, 3, **me).error_code is KafkaError.not_coordinator
        assert _commit(wire, group, topic, joined.member_id, joined.generation_id, 5) is KafkaError.none
        listed = [{one.group_id for one in each.call(LIST, 3).groups} for each in (wire, wrong)]
        assert [group in names for names in listed] == [True, False]
    owner.kill()
    until(lambda: _coordinator(other, group) == other.kafka, WAIT_SECONDS, what="nobody takes the group over")
    with Wire(other.kafka) as wire:
        assert wire.call(HEARTBEAT, 3, **me).error_code is KafkaError.none
        assert wire.call(SYNC, 3, **me, assignments=[]).assignment == b"plan"
        older = _commit(wire, group, topic, joined.member_id, joined.generation_id - 1, 1)
        assert older is KafkaError.illegal_generation
        assert _commit(wire, group, topic, joined.member_id, joined.generation_id, 6) is KafkaError.none
    offsets = other.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [row["offset"] for row in offsets] == [6]
    owner.start()
