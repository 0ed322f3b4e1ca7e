"""Which topics are at a journal, by what a gateway measures."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from gateway.engine.open_topic import OpenTopic
from gateway.engine.waiters import Wakeup
from gateway.journals import commit_modes
from tests.support.engine import Gateway, make_gateway


async def produce(gateway: Gateway, topics: list[OpenTopic], size_bytes: int = 100) -> None:
    await asyncio.gather(*(gateway.append(topic, [b"x" * size_bytes]) for topic in topics))


def at_journal(topics: list[OpenTopic]) -> list[bool]:
    return [topic.log.state.attachment is not None for topic in topics]


async def test_few_topics_keep_their_own_commits(gateway: Gateway) -> None:
    """Three topics are as they were before there were journals."""
    topics = [await gateway.topic(f"t{number}", flush_ms=5) for number in range(3)]
    for _ in range(3):
        await produce(gateway, topics)
        await asyncio.sleep(1)
        await gateway.engine.commit_modes.run_once()
    for _ in range(100):
        await produce(gateway, topics)
    await gateway.engine.commit_modes.run_once()
    assert not any(at_journal(topics))


async def test_the_smallest_of_many_topics_go_to_a_journal(gateway: Gateway) -> None:
    """Those with fixed modes stay; what is moved says why."""
    small = [await gateway.topic(f"s{number}", flush_ms=5) for number in range(60)]
    large = [await gateway.topic(f"l{number}", flush_ms=5) for number in range(3)]
    fixed = [await gateway.topic(f"f{number}", flush_ms=5, commit_mode="own") for number in range(3)]
    await gateway.engine.commit_modes.run_once()
    await asyncio.gather(produce(gateway, small + fixed), produce(gateway, large, 400_000))
    gateway.engine.commit_modes._last_ms = gateway.engine.clock.monotonic_ms() - 1_000
    await gateway.engine.commit_modes.run_once()
    assert sum(at_journal(small)) >= 45
    assert not any(at_journal(large))
    assert not any(at_journal(fixed))
    await produce(gateway, small)
    moved = next(topic for topic in small if topic.log.state.attachment is not None)
    described = await gateway.engine.administration.describe(moved.name)
    assert described.last_move is not None
    assert "own commits a second were wanted" in described.last_move.reason
    before = sum(at_journal(small))
    await gateway.engine.commit_modes.run_once()
    assert sum(at_journal(small)) >= before


@pytest.mark.parametrize(("count", "moves"), [(30, True), (20, False)])
async def test_topics_for_which_readers_wait_go_to_a_journal(gateway: Gateway, count: int, *, moves: bool) -> None:
    """Each costs two looks a second at its own log: where that is much, one look at a journal serves all. Without traffic."""
    topics = [await gateway.topic(f"t{number}") for number in range(count)]
    others = [await gateway.topic(f"o{number}") for number in range(3)]
    with ExitStack() as stack:
        for topic in topics:
            stack.enter_context(topic.waiters.register((0,), Wakeup()))
        await gateway.engine.commit_modes.run_once()
        assert at_journal(topics) == [moves] * count
        assert not any(at_journal(others))
        if moves:
            described = await gateway.engine.administration.describe("t0")
            assert described.last_move is not None
            assert "60 looks a second for readers that wait were wanted" in described.last_move.reason
            for topic in others:
                stack.enter_context(topic.waiters.register((0,), Wakeup()))
            await gateway.engine.commit_modes.run_once()
            assert all(at_journal(others)), "few, but many are there"


async def test_a_topic_with_large_flushes_gets_its_own_commits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After minutes of flushes above 1 MiB, and not before."""
    gateway = make_gateway()
    topic = await gateway.topic("t", flush_ms=250)
    await gateway.engine.administration.alter("t", None, {"commit.mode": "shared"})
    await gateway.engine.administration.alter("t", None, {"commit.mode": "auto"})
    topics = [topic]
    assert all(at_journal(topics))
    clock = gateway.engine.clock
    now_ms = clock.now_ms()
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms + commit_modes.MOVED_AGAIN_MS)
    for step in range(4):
        at_ms = clock.monotonic_ms()
        await gateway.append(topic, [b"x" * 1_000_000] * 12)
        assert all(at_journal(topics)), step
        gateway.engine.commit_modes._last_ms = at_ms - 1_000
        await gateway.engine.commit_modes.run_once()
        since_ms = gateway.engine.commit_modes._large_since_ms
        for name in since_ms:
            since_ms[name] -= commit_modes.OWN_AGAIN_MS // 2
        if not any(at_journal(topics)):
            break
    assert not any(at_journal(topics))
    await produce(gateway, topics)
    await gateway.engine.drain()


async def test_many_new_topics_begin_at_a_journal(gateway: Gateway) -> None:
    """Those with ``commit.mode`` ``own`` do not."""
    administration = gateway.engine.administration
    administration._made.extend([gateway.engine.clock.monotonic_ms()] * 500)
    topics = [await gateway.topic("t"), await gateway.topic("own", commit_mode="own")]
    assert at_journal(topics) == [True, False]
    assert await gateway.append(topics[0], [b"v"])
