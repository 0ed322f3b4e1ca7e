"""Sequencing: idempotent requests reach the writer in order, wait no longer than they must, and share their flush."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.engine.open_topic import OpenTopic
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.producers import ProducerStamp
from tests.support.engine import Gateway, batch_of, make_gateway, values_of
from tests.support.faulty_store import Gate
from tests.support.waiting import turns_up

EVER_MS = 60_000


class Requests:
    """One producer's requests to a topic of a gateway, as the route sends them."""

    def __init__(self, gateway: Gateway, topic: OpenTopic, producer_id: str) -> None:
        self._gateway = gateway
        self._topic = topic
        self._id = producer_id

    async def send(self, sequence: int, *, wait_ms: int = EVER_MS) -> Any:
        engine = self._gateway.engine
        batch = batch_of(self._topic, [b"%d" % sequence])
        batch.stamp = ProducerStamp(self._id, 0, sequence)
        await self._topic.sequencing.wait_for_predecessors(batch.stamp, engine.clock.monotonic_ms() + wait_ms)
        return await self._topic.appending.await_acknowledgement(self._topic.submit(batch, None))

    def start(self, sequence: int, **more: int) -> asyncio.Task[Any]:
        return asyncio.create_task(self.send(sequence, **more))


async def producer_on(gateway: Gateway, flush_ms: int = 0) -> Requests:
    topic = await gateway.topic(flush_ms=flush_ms)
    return Requests(gateway, topic, await gateway.engine.producer_ids.issue())


async def until_waiting(topic: OpenTopic, count: int) -> None:
    for _ in range(1_000):
        if topic.sequencing._waiting == count:
            return
        await asyncio.sleep(0.01)
    pytest.fail("they do not wait")


async def test_five_in_flight_share_a_flush_whatever_their_order(gateway: Gateway) -> None:
    """No request waits for the acknowledgement of those before it: while a commit is under way the others gather, in order."""
    requests = await producer_on(gateway)
    topic = await gateway.engine.open_topic("t")
    with Gate(gateway.store, "put_if_absent") as gate:
        first = requests.start(0)
        await gate.wait_until_reached()
        others = [requests.start(sequence) for sequence in (4, 2, 3, 1)]
        await turns_up(lambda: sum(map(len, topic.sequencing._under_way.values())) == 5)
        assert not topic.sequencing.is_idle
        gate.open()
        answers = [await first, *(await asyncio.gather(*others))]
    assert answers == [(AppendedRange(0, sequence, 1),) for sequence in (0, 4, 2, 3, 1)]
    assert topic.state.version <= 3, "five requests took more than three commits"
    is_idle: bool = topic.sequencing.is_idle
    assert is_idle
    assert values_of(await gateway.fetch()) == [b"0", b"1", b"2", b"3", b"4"]


async def test_one_that_waits_notices_what_came_in_elsewhere() -> None:
    """The requests before it went to another gateway, which does not tell this one: so it looks."""
    here = make_gateway()
    requests = await producer_on(here)
    elsewhere = make_gateway(objects=here.store.objects)
    there = Requests(elsewhere, await elsewhere.engine.open_topic("t"), requests._id)
    waiting = [requests.start(sequence) for sequence in (2, 1)]
    await until_waiting(await here.engine.open_topic("t"), 2)
    assert await there.send(0) == (AppendedRange(0, 0, 1),)
    assert await asyncio.gather(*waiting) == [(AppendedRange(0, 2, 1),), (AppendedRange(0, 1, 1),)]
    assert await there.send(1) == Duplicate((AppendedRange(0, 1, 1),))
    for gateway in (here, elsewhere):
        await gateway.engine.drain()


async def test_one_whose_turn_does_not_come_is_refused(gateway: Gateway) -> None:
    """At its deadline, or at once when it is further ahead than the bound; the error names the expected sequence; nothing is
    written.
    """
    requests = await producer_on(gateway)
    await requests.send(0)
    for sequence, wait_ms in ((2, 0), (5, 50), (6, EVER_MS), (10**17, EVER_MS)):
        with pytest.raises(RequestRefused) as caught:
            await requests.send(sequence, wait_ms=wait_ms)
        assert caught.value.code is ErrorCode.SEQUENCE_OUT_OF_ORDER
        assert caught.value.retryable
        assert caught.value.fields["expected_sequence"] == 1
    topic = await gateway.engine.open_topic("t")
    assert topic.state.high_watermark(0) == 1
    assert topic.sequencing.is_idle


async def test_one_that_waits_is_told_when_the_gateway_drains(gateway: Gateway) -> None:
    """A shutdown does not wait for what may never come: ``DRAINING``, and another gateway may take it."""
    requests = await producer_on(gateway)
    waiting = requests.start(1)
    await until_waiting(await gateway.engine.open_topic("t"), 1)
    await gateway.engine.drain()
    with pytest.raises(BackOff) as caught:
        await waiting
    assert caught.value.code is ErrorCode.DRAINING


async def test_only_so_many_wait() -> None:
    """Beyond the bound a request that would wait is refused with ``OVERLOADED``; one whose turn it is, is not."""
    gateway = make_gateway(sequences_waiting_max=2)
    requests = await producer_on(gateway)
    waiting = [requests.start(sequence) for sequence in (1, 2)]
    await until_waiting(await gateway.engine.open_topic("t"), 2)
    with pytest.raises(TidelogError) as caught:
        await requests.send(3)
    assert caught.value.code is ErrorCode.OVERLOADED
    assert await requests.send(0) == (AppendedRange(0, 0, 1),)
    assert await asyncio.gather(*waiting) == [(AppendedRange(0, 1, 1),), (AppendedRange(0, 2, 1),)]
    await gateway.engine.drain()


async def test_a_repeat_does_not_wait(gateway: Gateway) -> None:
    """What is in the log already, or too old to be told, is for the commit to answer, at once."""
    requests = await producer_on(gateway)
    for sequence in range(6):
        await requests.send(sequence)
    assert await requests.send(1, wait_ms=0) == Duplicate((AppendedRange(0, 1, 1),))
    with pytest.raises(RequestRefused) as caught:
        await requests.send(0, wait_ms=0)
    assert (caught.value.code, caught.value.retryable) == (ErrorCode.SEQUENCE_OUT_OF_ORDER, False)
