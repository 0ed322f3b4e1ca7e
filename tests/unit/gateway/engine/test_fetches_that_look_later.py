"""Long polls at the end of topics at a journal: they share the look that the journal gets anyway, and miss nothing by that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from log_format.errors import BackOff, OffsetOutOfRange, StoreUnavailable, UnknownTopic
from log_format.stores.memory import MemoryStore
from tests.support.engine import Gateway, make_gateway, values_of

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}
NEVER = 600_000


async def two_gateways(**bounds: Any) -> tuple[Gateway, Gateway]:
    """Both know the topic with one record; the second one has just looked."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects, **bounds)
    await one.append(await one.topic("t", **SHARED), [b"0"])
    assert values_of(await other.fetch()) == [b"0"]
    return one, other


async def append(gateway: Gateway, value: bytes) -> None:
    await gateway.append(await gateway.engine.open_topic("t"), [value])


async def test_renewed_polls_ask_the_store_for_nothing() -> None:
    """However many come and go, until the next look is due."""
    _, gateway = await two_gateways(journal_poll_ms=30_000)
    before = len(gateway.store.requests)
    for _ in range(50):
        poll = asyncio.create_task(gateway.fetch(offset=1, wait_ms=60_000))
        await asyncio.sleep(0.005)
        poll.cancel()
        await asyncio.wait((poll,))
    assert gateway.store.requests[before:] == []
    await append(gateway, b"1")
    assert values_of(await gateway.fetch(offset=1, wait_ms=60_000)) == [b"1"]


async def test_a_poll_sees_what_another_gateway_acknowledged_before_it() -> None:
    """By the next look at the journal, without news, and long before its time is over."""
    one, other = await two_gateways(journal_poll_ms=300)
    for number in range(1, 4):
        await append(one, b"%d" % number)
        async with asyncio.timeout(20):
            part = await other.fetch(offset=number, wait_ms=60_000)
        assert (values_of(part), part.high_watermark) == ([b"%d" % number], number + 1)


@pytest.mark.parametrize("wait_ms", [0, 50])
async def test_a_short_poll_looks_at_once(wait_ms: int) -> None:
    """No look would come in its time."""
    one, other = await two_gateways(journal_poll_ms=NEVER)
    await append(one, b"1")
    assert values_of(await other.fetch(offset=1, wait_ms=wait_ms)) == [b"1"]


async def test_an_answer_by_the_gateways_own_commit_has_what_was_acknowledged_elsewhere() -> None:
    """A commit of a moment before the poll wakes it: the answer says what is there now."""
    one, other = await two_gateways(journal_poll_ms=NEVER)
    poll = asyncio.create_task(other.fetch(offset=1, bytes_min=2, wait_ms=NEVER))
    await asyncio.sleep(0.05)
    await append(one, b"1")
    await append(other, b"2")
    part = await poll
    assert (values_of(part), part.high_watermark) == ([b"1", b"2"], 3)


async def test_a_poll_looks_by_itself_where_nobody_does() -> None:
    """The look of all waiting readers has failed, and the next one is far: the poll is told what there is before it ends."""
    one, other = await two_gateways(journal_poll_ms=200, log_poll_ms=NEVER)
    await append(one, b"1")
    other.store.script["get"] = [StoreUnavailable("x", "once", may_have_happened=False)]
    async with asyncio.timeout(20):
        assert values_of(await other.fetch(offset=1, wait_ms=60_000)) == [b"1"]


async def test_a_poll_that_can_not_look_is_refused() -> None:
    """It does not say that nothing is there."""
    one, other = await two_gateways(journal_poll_ms=200, log_poll_ms=NEVER)
    await append(one, b"1")
    other.store.go_down()
    with pytest.raises(BackOff):
        await other.fetch(offset=1, wait_ms=300)


async def test_a_poll_at_a_deleted_topic_ends() -> None:
    """And does not wait for the records of one that is made anew."""
    one, other = await two_gateways(journal_poll_ms=200)
    await one.engine.administration.delete("t")
    await one.topic("t", **SHARED)
    async with asyncio.timeout(20):
        with pytest.raises((UnknownTopic, OffsetOutOfRange)):
            await other.fetch(offset=1, wait_ms=60_000)
