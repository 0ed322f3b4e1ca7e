"""A request that names very many things that are not there asks the store for little, also by a caller that may see them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.rights.world import World

NAMED = 2_000
REQUESTS_MAX = 1_000

ASKS: dict[str, tuple[int, Callable[[list[str]], dict[str, Any]]]] = {
    "describe_groups": (5, lambda names: {"groups": names, "include_authorized_operations": False}),
    "consumer_group_describe": (1, lambda names: {"group_ids": names, "include_authorized_operations": False}),
    "share_group_describe": (1, lambda names: {"group_ids": names, "include_authorized_operations": False}),
    "delete_groups": (2, lambda names: {"groups_names": names}),
    "offset_fetch": (8, lambda names: {"groups": [{"group_id": name, "topics": None} for name in names]}),
    "describe_share_group_offsets": (
        1,
        lambda names: {"groups": [{"group_id": name, "topics": None} for name in names]},
    ),
    "describe_transactions": (0, lambda names: {"transactional_ids": names}),
    "describe_producers": (
        0,
        lambda names: {"topics": [{"name": name, "partition_indexes": [0]} for name in names]},
    ),
    "metadata": (
        4,
        lambda names: {
            "topics": [{"name": name, "topic_id": None} for name in names],
            "allow_auto_topic_creation": False,
        },
    ),
    "delete_topics": (6, lambda names: {"topics": [{"name": name, "topic_id": None} for name in names], "timeout": 0}),
    "describe_topic_partitions": (
        0,
        lambda names: {"topics": [{"name": name} for name in names], "response_partition_limit": 9, "cursor": None},
    ),
}


def _requests(world: World) -> float:
    """How many requests the store has had."""
    metrics = world.live.http(world.live.token, "GET", "/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in metrics if line.startswith("tidelog_store_requests_total"))


@pytest.mark.parametrize("name", ASKS)
def test_the_store_is_asked_for_little(world: World, name: str) -> None:
    """Names of topics go by a listing once many were looked at in vain; groups and transactional ids share their looks."""
    version, values = ASKS[name]
    world.may_all()
    with world.wire() as wire:
        before = _requests(world)
        wire.ask(name, version, **values([f"{world.names['mark']}-{number}" for number in range(NAMED)]))
        assert len(wire.frame()) > NAMED
        assert _requests(world) - before < REQUESTS_MAX
