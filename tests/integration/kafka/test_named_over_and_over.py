"""An answer is no longer than what there is, however often a request names it, and is held as bytes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway

TIMES = 200
GROWTH_BYTES_MAX = 80 * 1024 * 1024


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGateway]:
    """One that no other test uses, with a topic, a group, a queue and a transactional id, all of the name ``one``."""
    with kafka_gateway("memory://named", tmp_path_factory.mktemp("named") / "log") as running:
        running.topic("one")
        offset = {"topic": "one", "partition": 0, "offset": 0}
        running.http.put("/v1/groups/one/offsets", json={"offsets": [offset]}).raise_for_status()
        running.http.put("/v1/queues/one", json={"topics": ["one"]}).raise_for_status()
        running.http.post("/v1/transactions", json={"transactional_id": "one"}).raise_for_status()
        yield running


MANY = ["one"] * TIMES
ASKED: Mapping[str, tuple[int, Mapping[str, Any], Callable[[Any], Any]]] = {
    "metadata": (
        12,
        {
            "topics": [{"name": "one", "topic_id": None}] * TIMES,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
        lambda answer: answer.topics,
    ),
    "describe_configs": (
        4,
        {
            "resources": [{"resource_type": 2, "resource_name": "one", "configuration_keys": None}] * TIMES,
            "include_synonyms": True,
            "include_documentation": False,
        },
        lambda answer: answer.results,
    ),
    "describe_groups": (5, {"groups": MANY, "include_authorized_operations": False}, lambda answer: answer.groups),
    "consumer_group_describe": (
        1,
        {"group_ids": MANY, "include_authorized_operations": False},
        lambda answer: answer.groups,
    ),
    "share_group_describe": (
        1,
        {"group_ids": MANY, "include_authorized_operations": False},
        lambda answer: answer.groups,
    ),
    "describe_share_group_offsets": (
        1,
        {"groups": [{"group_id": "one", "topics": None}] * TIMES},
        lambda answer: answer.groups,
    ),
    "offset_fetch": (
        8,
        {"groups": [{"group_id": "one", "topics": None}] * TIMES, "require_stable": False},
        lambda answer: answer.groups,
    ),
    "describe_transactions": (0, {"transactional_ids": MANY}, lambda answer: answer.transaction_states),
    "describe_producers": (
        0,
        {"topics": [{"name": "one", "partition_indexes": [0] * TIMES}] * 2},
        lambda answer: [one for topic in answer.topics for one in topic.partitions],
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_named_over_and_over_is_told_once(gateway: KafkaGateway, name: str) -> None:
    """Else a request of a megabyte had an answer of gigabytes, made while all others wait."""
    version, values, told = ASKED[name]
    with Wire(gateway.kafka) as wire:
        (only,) = told(wire.call(name, version, **values))
    assert only.error_code is KafkaError.none


def test_settings_of_very_many_topics_are_held_as_bytes(gateway: KafkaGateway) -> None:
    """Topics that are only tried are told with all their settings."""
    topics = [
        {"name": f"tried-{number}", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        for number in range(8_000)
    ]
    before = gateway.reset_peak()
    with Wire(gateway.kafka, seconds=120) as wire:
        answer = wire.call("create_topics", 5, topics=topics, timeout=timedelta(seconds=5), validate_only=True)
    assert gateway.peak_bytes() - before <= GROWTH_BYTES_MAX
    assert [one.name for one in answer.topics] == [topic["name"] for topic in topics]
    assert {len(one.configs) > 10 for one in answer.topics} == {True}
