"""Topics are kept from journals while a gateway is alive that can't serve them there, or while an operator wants it so."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.journals.commit_modes import OWN_COMMITS_MAX
from log_format.clock import SystemClock
from log_format.errors import BackOff, ErrorCode, RequestRefused
from log_format.stores.memory import MemoryStore
from log_format.topic.append_outcome import AppendedRange
from tests.support.engine import Gateway, make_gateway, values_of
from tests.support.heartbeats import heartbeat

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


async def many_commits(gateway: Gateway, topic_count: int) -> None:
    """More commits a second than a gateway keeps up with."""
    topics = [await gateway.topic(f"t{number}", flush_ms=1) for number in range(topic_count)]
    await gateway.engine.commit_modes.run_once()
    await asyncio.gather(*(gateway.append(topic, [b"v"]) for topic in topics for _ in range(3)))
    await gateway.engine.commit_modes.run_once()


def places(gateway: Gateway) -> set[bool]:
    """Whether topics are at a journal."""
    return {topic.log.state.attachment is not None for topic in gateway.engine.topics}


async def test_the_setting_keeps_topics_from_journals() -> None:
    """Asking for one is refused and changes nothing; topics that would go by themselves stay."""
    gateway = make_gateway(journals=False)
    with pytest.raises(RequestRefused) as refused:
        await gateway.topic("shared", **SHARED)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert await gateway.engine.administration.names() == []
    topic = await gateway.topic("t")
    with pytest.raises(RequestRefused) as refused:
        await gateway.engine.administration.alter("t", 2, {"commit.mode": "shared"})
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert (topic.log.state.partition_count, topic.log.state.attachment) == (1, None)
    await many_commits(gateway, int(OWN_COMMITS_MAX) * 2)
    assert places(gateway) == {False}


async def test_topics_at_a_journal_are_served_all_the_same() -> None:
    """The setting is for more of them. Those that are there get records, settings and drains, and may leave."""
    objects = MemoryStore()
    before, gateway = make_gateway(objects=objects), make_gateway(objects=objects, journals=False)
    await before.append(await before.topic("t", **SHARED), [b"0"])
    topic = await gateway.engine.open_topic("t")
    assert await gateway.append(topic, [b"1"]) == (AppendedRange(0, 1, 1),)
    await gateway.engine.administration.alter("t", 2, {"commit.mode": "shared", "flush.ms": 1})
    assert gateway.engine.journals.count_in_use() == (1, 1)
    await topic.moving.drain_all()
    assert topic.log.state.next_offsets.tolist() == [2, 0]
    await gateway.engine.administration.alter("t", None, {"commit.mode": "own"})
    assert topic.log.state.attachment is None
    gateway.forget_tail()
    assert values_of(await gateway.fetch()) == [b"0", b"1"]


async def test_an_older_gateway_keeps_topics_from_journals_while_it_is_alive(caplog: pytest.LogCaptureFixture) -> None:
    """A release before journals refuses topics that are at one: during an upgrade none goes there."""
    peers = Peers(SystemClock())
    gateway = make_gateway(ownership=Ownership("a", peers, "preferred"))
    peers.take_in([heartbeat("new"), heartbeat("old", journals=False)])
    with pytest.raises(BackOff, match=r"alive: old\.") as refused:
        await gateway.topic("shared", **SHARED)
    assert refused.value.code == ErrorCode.UNAVAILABLE
    with caplog.at_level(logging.WARNING, "gateway.journal"):
        await many_commits(gateway, int(OWN_COMMITS_MAX) * 2)
        await gateway.engine.commit_modes.run_once()
    assert places(gateway) == {False}
    assert len([line for line in caplog.messages if "no topic may go to a journal" in line]) == 1
    peers.take_in([heartbeat("new")])
    shared = await gateway.topic("shared", **SHARED)
    assert shared.log.state.attachment is not None


async def test_topics_go_to_a_journal_by_themselves_otherwise() -> None:
    """What the tests above hold back does happen."""
    gateway = make_gateway()
    await many_commits(gateway, int(OWN_COMMITS_MAX) * 2)
    assert True in places(gateway)


async def test_very_many_new_topics_get_their_own_commits_while_they_are_held_back() -> None:
    """They would begin at a journal. None of them is refused."""
    gateway = make_gateway(journals=False)
    for first in range(0, 540, 20):
        await asyncio.gather(*(gateway.topic(f"t{number}") for number in range(first, first + 20)))
    assert places(gateway) == {False}
