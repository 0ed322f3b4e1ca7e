"""Unit tests of ``tidelog.aio``, over the in-process gateway."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tidelog
import tidelog.aio
from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import eventually
from tidelog import TopicPartition
from tidelog.aio.keywords import ConsumerKeywords, ProducerKeywords, QueueConsumerKeywords
from tidelog.errors import BufferFull, ClientClosed, UnknownTopic
from tidelog.http.credentials import ConnectionSettings

Threads = Callable[[], list[str]]


@pytest.mark.parametrize("name", ["Admin", "Consumer", "Producer", "QueueConsumer"])
def test_the_twins_have_the_same_names_and_arguments(name: str) -> None:
    """Every public method of ``tidelog`` is in ``tidelog.aio`` with the same parameters, and the constructors agree."""
    engine, twin = getattr(tidelog, name), getattr(tidelog.aio, name)
    seams = {
        "wait",
        "ready",
        "ready_arrow",
        "has_ready",
        "wait_for_room",
        "take",
        "needs_registration",
        "register_model",
    }
    for method, function in inspect.getmembers(engine, inspect.isfunction):
        if method.startswith("_") or method in seams:
            continue
        theirs = [(p.name, p.kind) for p in inspect.signature(function).parameters.values()]
        ours = [(p.name, p.kind) for p in inspect.signature(getattr(twin, method)).parameters.values()]
        assert [each for each in theirs if method != "send_table" or each[0] != "max_block_ms"] == ours, method
    settings = {
        "Consumer": ConsumerKeywords,
        "Producer": ProducerKeywords,
        "QueueConsumer": QueueConsumerKeywords,
    }.get(name)
    given = set(inspect.signature(twin).parameters) - {"settings"}
    given |= set(settings.__annotations__) if settings is not None else set()
    of_connections = {"connection", *ConnectionSettings.__annotations__}
    assert given - of_connections == set(inspect.signature(engine).parameters) - {"connection"}
    assert given & of_connections in ({"connection"}, of_connections - {"connection"})


def test_what_is_sent_is_read(gateway: FakeGateway, client_threads: Threads) -> None:
    """Through all three twins: each record is where its future says; iteration ends when nothing comes; nothing is left."""

    async def main() -> None:
        async with tidelog.aio.Admin(gateway.url) as admin:
            await admin.create_topic("t", 2)
            assert [topic.name for topic in await admin.list_topics()] == ["t"]
        async with tidelog.aio.Producer(gateway.url) as producer:
            futures = [await producer.send("t", f"{number}", partition=number % 2) for number in range(50)]
            await producer.flush()
            stored = await asyncio.gather(*futures)
        async with tidelog.aio.Consumer("t", bootstrap_servers=gateway.url, consumer_timeout_ms=50) as consumer:
            read = [record async for record in consumer]
            assert await consumer.position(TopicPartition("t", 1)) == 25
        assert {(r.partition, r.offset): r.value for r in read} == {
            (place.partition, place.offset): b"%d" % number for number, place in enumerate(stored)
        }
        assert len(read) == 50

    asyncio.run(main())
    assert eventually(lambda: not client_threads())


def test_a_cancelled_poll_loses_nothing(gateway: FakeGateway, client_threads: Threads) -> None:
    """Polls are cancelled at every moment, also while a gateway is thinking; the records come all, once, in order."""
    gateway.fill("t", 300)

    async def main() -> list[int]:
        read: list[int] = []
        consumer = tidelog.aio.Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=200)
        async with consumer:
            for turn in range(2_000):
                if len(read) == 300:
                    break
                poll = asyncio.create_task(consumer.poll(100, 20))
                await asyncio.sleep((turn % 7) / 2_000)
                poll.cancel()
                outcome = (await asyncio.gather(poll, return_exceptions=True))[0]
                if isinstance(outcome, list):
                    read += [record.offset for record in outcome]
                else:
                    assert isinstance(outcome, asyncio.CancelledError)
            while len(read) < 300:
                found = await consumer.poll(5_000)
                assert found, f"{len(read)} of 300"
                read += [record.offset for record in found]
        return read

    assert asyncio.run(main()) == list(range(300))
    assert eventually(lambda: not client_threads())


def test_a_poll_does_not_block_the_loop_and_close_ends_it(gateway: FakeGateway, client_threads: Threads) -> None:
    """While one task waits for records another one runs; ``close`` ends the wait with ``ClientClosed``, and its threads."""
    gateway.create("t", 1)

    async def main() -> None:
        consumer = tidelog.aio.Consumer("t", bootstrap_servers=gateway.url)
        poll = asyncio.create_task(consumer.poll(60_000))
        await asyncio.sleep(0.05)
        assert not poll.done()
        with pytest.raises(RuntimeError, match="one task"):
            await consumer.poll(0)
        await consumer.close()
        with pytest.raises(ClientClosed):
            await poll

    asyncio.run(main())
    assert eventually(lambda: not client_threads())


async def test_errors_are_the_same(gateway: FakeGateway) -> None:
    """What ``tidelog`` raises comes out of the awaited call."""
    async with tidelog.aio.Admin(gateway.url) as admin:
        with pytest.raises(UnknownTopic):
            await admin.describe_topic("none")
    async with tidelog.aio.Consumer("none", bootstrap_servers=gateway.url) as consumer:
        with pytest.raises(UnknownTopic):
            await consumer.poll()


async def test_a_lone_record_that_is_awaited_does_not_linger(gateway: FakeGateway) -> None:
    """One after another; tasks that wait beside each other share requests."""
    gateway.create("t", 1)
    async with tidelog.aio.Producer(gateway.url, linger_ms=60_000) as producer:

        async def one_by_one(count: int) -> None:
            for _ in range(count):
                await (await producer.send("t", b"x"))

        await asyncio.wait_for(one_by_one(5), 30)
    async with tidelog.aio.Producer(gateway.url, linger_ms=30) as producer:
        before = gateway.count("POST .*/records")
        await asyncio.gather(*(one_by_one(10) for _ in range(20)))
        assert gateway.count("POST .*/records") - before <= 25


def test_a_full_buffer_is_awaited(gateway: FakeGateway, client_threads: Threads) -> None:
    """With room for few records the loop goes on running while ``send`` waits; every record is stored, in order."""
    made = gateway.create("t", 1)

    async def main() -> int:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(turn())
        async with tidelog.aio.Producer(gateway.url, buffer_bytes=2_000, batch_bytes=500, linger_ms=10_000) as producer:
            for number in range(200):
                _ = await producer.send("t", b"%d" % number)
        other.cancel()
        return turns

    assert asyncio.run(main()) > 100
    assert [record.value for record in made.records[0]] == [b"%d" % number for number in range(200)]
    assert eventually(lambda: not client_threads())


async def test_a_full_buffer_is_awaited_only_so_long(gateway: FakeGateway) -> None:
    """After ``max_block_ms`` the record is refused; one that can never fit is refused at once."""
    gateway.create("t", 1)
    release = threading.Event()

    def slow(exchange: Any) -> None:
        release.wait(20)
        exchange.carry_out()

    gateway.misbehave("POST /v1/topics/t/records", slow)
    producer = tidelog.aio.Producer(gateway.url, buffer_bytes=300, batch_bytes=100, max_block_ms=50)
    first = await producer.send("t", b"x" * 150)
    with pytest.raises(BufferFull):
        await producer.send("t", b"y" * 150)
    with pytest.raises(BufferFull):
        await producer.send("t", b"z" * 400)
    release.set()
    await producer.close()
    assert (await first).offset == 0
