"""``QueueConsumer``, over the in-process gateway: what is settled when, and what a handler may do."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tidelog.aio
from tests.support.fake_gateway import FakeGateway
from tests.support.queue_consumers import actions, consumer, fill
from tests.support.waiting import eventually, until
from tidelog import Admin, Filter, QueueConsumer, QueueRecord
from tidelog.errors import GatewayError, LeaseExpired, NoDeadLetterTopic, UnknownQueue

Threads = Callable[[], list[str]]


def test_queues_are_administered(gateway: FakeGateway) -> None:
    """Made, replaced, listed, described, deleted; settings go as the contract names them."""
    fill(gateway, 3, 2)
    with Admin(gateway.url) as admin:
        wanted = Filter(headers={"a": "b"}, key="k")
        made = admin.create_queue("q", ["t"], dead_letter_topic="d", backoff_ms=[1, 2], start=5, filter=wanted)
        assert (made.topics, made.dead_letter_topic, made.backoff_ms) == (("t",), "d", (1, 2))
        assert (made.start, made.filter) == ({"timestamp": 5}, {"headers": ["a:b"], "key": "k"})
        assert [queue.queue for queue in admin.list_queues()] == ["q"]
        assert [(each.partition, each.lag) for each in admin.describe_queue("q").partitions] == [(0, 3), (1, 3)]
        assert admin.redrive_queue("q") == 0
        admin.create_queue("q", ["t"])
        with pytest.raises(NoDeadLetterTopic):
            admin.redrive_queue("q")
        admin.delete_queue("q")
        admin.delete_queue("q", missing_ok=True)
        with pytest.raises(UnknownQueue):
            admin.describe_queue("q")
    with QueueConsumer("q", bootstrap_servers=gateway.url) as queue, pytest.raises(UnknownQueue):
        queue.poll()


def test_each_record_is_settled_by_itself(gateway: FakeGateway, client_threads: Threads) -> None:
    """Accepted, rejected with a reason, released with a pause; the record's bytes are exact; nothing is left running."""
    fill(gateway, 4)
    with consumer(gateway) as queue:
        first, second, third, fourth = queue.poll(1_000)
        assert (first.topic, first.partition, first.offset, first.value, first.headers) == (
            "t",
            0,
            0,
            b"0",
            (("h", None),),
        )
        first.accept().result(5)
        second.reject("broken").result(5)
        third.release(50).result(5)
        with pytest.raises(RuntimeError, match="already settled"):
            first.release()
        fourth.accept()
        queue.flush()
        assert actions(gateway) == {0: "accept", 1: "reject", 3: "accept"}
        assert [(record.offset, reason) for record, reason in gateway.queues["q"].dead] == [(1, "broken")]
        (again,) = queue.poll(2_000)
        assert (again.offset, again.delivery_count) == (2, 2)
    assert eventually(lambda: not client_threads())


def test_settlements_share_requests(gateway: FakeGateway) -> None:
    """While one request is under way others collect; neighbours travel as one range."""
    fill(gateway, 500)
    with consumer(gateway, max_poll_records=500) as queue:
        records = queue.poll(1_000)
        futures = [record.accept() for record in records]
        queue.flush()
        assert all(future.done() for future in futures)
    assert len(actions(gateway)) == 500
    calls = gateway.queues["q"].settle_calls
    assert sum(map(len, calls)) < 50


def test_a_range_that_is_refused_is_sent_one_by_one(gateway: FakeGateway) -> None:
    """One lock that is over costs its own record only."""
    fill(gateway, 10)
    with consumer(gateway) as queue:
        records = queue.poll(1_000)
        for offset in (0, 4):
            gateway.queues["q"].locks["t", 0, offset] = ("another", time.monotonic() + 60)
        with gateway.changed:  # no settlement is answered before all wait
            futures = [record.accept() for record in records]
            time.sleep(0.1)
        outcomes = [future.exception(5) for future in futures]
        assert [offset for offset, error in enumerate(outcomes) if isinstance(error, LeaseExpired)] == [0, 4]
        with pytest.raises(LeaseExpired):
            queue.flush()
        assert queue.flush()
    assert sorted(actions(gateway)) == [1, 2, 3, 5, 6, 7, 8, 9]


def test_locks_are_renewed_while_records_are_in_hand(gateway: FakeGateway) -> None:
    """Also of those that wait for their turn; not once the next records were asked for."""
    fill(gateway, 3)
    locks = gateway.queues["q"].locks
    with consumer(gateway, lock_ms=6_000) as queue:
        offsets = []
        for record in queue:
            first = {place: end for place, (_, end) in locks.items()}
            mine = [place for place in first if place[2] >= record.offset]
            until(lambda first=first, mine=mine: all(locks[place][1] > first[place] for place in mine))  # type: ignore[misc]
            record.accept().result(30)
            offsets.append((record.offset, record.delivery_count))
        assert offsets == [(0, 1), (1, 1), (2, 1)]
    fill(gateway, 2)
    gateway.queues["q"].settled.clear()
    gateway.queues["q"].deliveries.clear()
    with consumer(gateway, lock_ms=3_000) as queue:
        (kept,) = queue.poll(10_000, 1)
        (other,) = queue.poll(10_000, 1)
        other.accept()
        (again,) = queue.poll(30_000, 1)  # the lock of the first is over then
        assert (again.offset, again.delivery_count) == (kept.offset, 2)
        with pytest.raises(LeaseExpired):
            kept.accept().result(30)


def test_a_pool_of_workers(gateway: FakeGateway, client_threads: Threads) -> None:
    """Records are handled side by side; one that fails comes again, and is dead in the end; a handler may settle itself."""
    fill(gateway, 30, max_deliveries=3, dead_letter_topic="d")
    running, most = 0, 0
    lock = threading.Lock()

    def handle(record: QueueRecord) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        if record.offset == 7:
            raise ZeroDivisionError
        if record.offset == 8:
            record.reject("never")
        if record.offset == 9 and record.delivery_count == 1:
            record.release(10)

    with consumer(gateway) as queue:
        queue.run(handle, workers=4)
    assert most == 4
    assert actions(gateway) == dict.fromkeys(range(30), "accept") | {7: "dead", 8: "reject"}
    assert gateway.queues["q"].deliveries["t", 0, 7] == 3
    assert gateway.queues["q"].deliveries["t", 0, 9] == 2
    assert eventually(lambda: not client_threads())


def test_stopping_gives_back_what_is_not_handled(gateway: FakeGateway) -> None:
    """``stop`` ends ``run`` soon; what was handled is accepted, and the rest is free at once."""
    fill(gateway, 50)
    handled = []
    with consumer(gateway, consumer_timeout_ms=None) as queue:

        def handle(record: QueueRecord) -> None:
            handled.append(record.offset)
            if len(handled) == 5:
                queue.stop()

        began = time.monotonic()
        queue.run(handle, workers=2)
        assert time.monotonic() - began < 5
    assert {*actions(gateway)} == {*handled}
    with consumer(gateway) as other:
        assert len(other.poll(1_000)) == 50 - len(handled)


def test_leaving_a_block_by_an_exception_releases(gateway: FakeGateway) -> None:
    """The record in hand is delivered again, and so is what waited."""
    fill(gateway, 3)

    def work() -> None:
        with consumer(gateway) as queue:
            for record in queue:
                if record.offset == 1:
                    raise ZeroDivisionError
                record.accept()

    with pytest.raises(ZeroDivisionError):
        work()
    with consumer(gateway) as queue:
        assert {record.offset for record in queue.poll(1_000)} == {1, 2}


def test_a_forgotten_consumer_holds_no_locks(gateway: FakeGateway, client_threads: Threads) -> None:
    """Its thread ends, and its records come to others when their locks are over."""
    fill(gateway, 2)
    forgotten = consumer(gateway, lock_ms=400)
    assert len(forgotten.poll(1_000)) == 2
    del forgotten
    gc.collect()
    assert eventually(lambda: not client_threads())
    with consumer(gateway) as queue:
        assert len(queue.poll(2_000)) == 2


def test_what_no_gateway_answers_is_not_settled(gateway: FakeGateway) -> None:
    """The future has the error, and so has ``flush``, once."""
    fill(gateway, 1)
    with consumer(gateway, api_timeout_ms=300, request_timeout_ms=200) as queue:
        (record,) = queue.poll(1_000)
        gateway.misbehave(":settle", *[gateway.lose(done=False)] * 1_000)
        with pytest.raises(GatewayError):
            record.accept().result(20)
        with pytest.raises(GatewayError):
            queue.flush()
        assert queue.flush()


def test_from_asyncio(gateway: FakeGateway, client_threads: Threads) -> None:
    """The same: by hand, by iteration, by ``run``; a cancelled poll loses nothing."""
    fill(gateway, 12, max_deliveries=2)

    async def main() -> None:
        settings: Any = {"bootstrap_servers": gateway.url, "consumer_timeout_ms": 300}
        async with tidelog.aio.QueueConsumer("q", **settings) as queue:
            cancelled = asyncio.ensure_future(queue.poll(1_000, 2))
            await asyncio.sleep(0)
            cancelled.cancel()
            first, second = await queue.poll(1_000, 2)
            await first.accept()
            await second.reject("no")
            seen = []
            async for record in queue:
                seen.append(record.offset)
                await record.accept()
                if len(seen) == 5:
                    break
            assert seen == [2, 3, 4, 5, 6]

            async def handle(record: QueueRecord) -> None:
                await asyncio.sleep(0.01)
                if record.offset == 11:
                    raise ZeroDivisionError

            leftover = await queue.poll(100)
            for record in leftover[:-1]:
                record.accept()
            leftover[-1].release(0)
            await queue.run(handle, workers=3)

    asyncio.run(main())
    assert actions(gateway) == dict.fromkeys(range(11), "accept") | {1: "reject", 11: "dead"}
    assert eventually(lambda: not client_threads())


def test_what_is_out_of_range_is_refused() -> None:
    """Before anything is sent."""
    wrongs: tuple[Any, ...] = ({"max_poll_records": 0}, {"fetch_max_bytes": 0})
    for wrong in wrongs:
        with pytest.raises(ValueError, match="not 1 to"):
            QueueConsumer("q", **wrong)
    with QueueConsumer("q") as queue:
        with pytest.raises(ValueError, match="below 1"):
            queue.poll(max_records=0)
        with pytest.raises(ValueError, match="below 1"):
            queue.run(print, workers=0)
