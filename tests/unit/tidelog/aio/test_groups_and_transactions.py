"""Unit tests of groups and transactions in ``tidelog.aio``, over the in-process gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tidelog.aio
from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until
from tidelog import GroupMetadata, TopicPartition
from tidelog.errors import TransactionAborted

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


Threads = Callable[[], list[str]]


def no_thread_left(client_threads: Threads) -> bool:
    until(lambda: not client_threads())
    return True


def test_transactions(gateway: FakeGateway, client_threads: Threads) -> None:
    """Committed at the end of the block, aborted by an exception and by cancelling; nothing is left behind."""
    gateway.create("t")

    async def raising(producer: tidelog.aio.Producer) -> asyncio.Future[Any]:
        async with producer.transaction():
            future = await producer.send("t", "b")
            await producer.flush()
            try:
                raise ZeroDivisionError
            finally:
                futures.append(future)

    futures: list[asyncio.Future[Any]] = []

    async def main() -> None:
        async with tidelog.aio.Producer(gateway.url, transactional_id="id", linger_ms=0) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                future = await producer.send("t", "a")
                await producer.send_offsets_to_transaction({P0: 3}, GroupMetadata("g", "m", 1))
                await producer.flush()
                assert not future.done()
            assert (await future).offset == 0
            with pytest.raises(ZeroDivisionError):
                await raising(producer)
            with pytest.raises(TransactionAborted):
                await futures[0]

            async def endless() -> None:
                async with producer.transaction():
                    await producer.send("t", "c")
                    inside.set()
                    await asyncio.sleep(3_600)

            inside = asyncio.Event()
            task = asyncio.create_task(endless())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send("t", "d")

    asyncio.run(main())
    assert gateway.values("t") == [[b"a", b"d"]]
    assert no_thread_left(client_threads)


async def test_a_cancelled_beginning_leaves_none_open(gateway: FakeGateway) -> None:
    """Cancelled while the gateway thinks about it: the next transaction can begin."""
    gateway.create("t")

    async def block(producer: tidelog.aio.Producer) -> None:
        async with producer.transaction():
            raise AssertionError("it was cancelled before")

    async with tidelog.aio.Producer(gateway.url, transactional_id="id") as producer:
        gateway.misbehave(r"POST /v1/transactions$", gateway.stall(0.5))
        task = asyncio.create_task(block(producer))
        await asyncio.to_thread(until, lambda: gateway.count(r"POST /v1/transactions$"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with producer.transaction():
            await producer.send("t", "a")
    assert gateway.values("t") == [[b"a"]]


def test_a_member(gateway: FakeGateway, client_threads: Threads) -> None:
    """Reading in a group: a hand-over in the middle of an iteration, commits by hand and at the end; no thread is left."""
    gateway.fill("t", 200, 2)
    revoked: list[list[TopicPartition]] = []

    async def main() -> None:
        seen: list[tuple[int, bool]] = []
        group = None
        async with tidelog.aio.Consumer(
            "t", bootstrap_servers=gateway.url, group="g", on_revoked=revoked.append, consumer_timeout_ms=500
        ) as consumer:
            async for record in consumer:
                group = group or gateway.groups["g"]
                seen.append((record.partition, "acknowledge 2" in group.events))
                if len(seen) == 50:
                    lost = TopicPartition("t", record.partition)
                    gateway.move("g", "m0", ("t", 1 - record.partition))
                    await asyncio.to_thread(until, consumer._consumer._needs_attention)
            kept = TopicPartition("t", 1 - lost.partition)
            assert (lost.partition, True) not in seen
            assert revoked == [[lost]]
            assert await consumer.positions() == {kept: 200}
            ids = {kept: gateway.topics["t"].topic_id}
            assert consumer.group_metadata() == GroupMetadata("g", "m0", 2, ids)
            assert await consumer.lag() == {kept: 0}
            await consumer.commit({kept: 7}, metadata="x")
            assert (await consumer.committed())[kept] == 7
            await consumer.seek_to_committed()
            assert len(await consumer.poll(5_000)) == 193
        assert gateway.groups["g"].offsets[kept.topic, kept.partition] == 200
        assert gateway.groups["g"].events[-1] == "leave m0"

    asyncio.run(main())
    assert no_thread_left(client_threads)
