"""Records of a queue, accepted in the transaction that sends what came of them: over a real gateway process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway
from tidelog import Admin, Producer, QueueConsumer, QueueRecord, aio
from tidelog.errors import LeaseExpired, TransactionAborted


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A gateway with a topic of three jobs, a queue of it, and a topic for results."""
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log") as gateway:
        with Admin(bootstrap_servers=gateway.url) as admin, Producer(bootstrap_servers=gateway.url) as producer:
            for topic in ("jobs", "results"):
                admin.create_topic(topic)
            admin.create_queue("work", ["jobs"], start="earliest", lock_ms=2_000)
            for number in range(3):
                producer.send("jobs", f"job-{number}")
        yield gateway.url


def polled(queue: QueueConsumer) -> list[QueueRecord]:
    return queue.poll(timeout_ms=5_000)


def lag(url: str) -> int:
    with Admin(bootstrap_servers=url) as admin:
        return sum(one.lag for one in admin.describe_queue("work").partitions or ())


def test_records_are_accepted_with_what_was_sent(url: str) -> None:
    """Committed: the queue is done with them. They are settled once, and no lock is renewed any more."""
    with (
        Producer(bootstrap_servers=url, transactional_id="worker") as producer,
        QueueConsumer("work", bootstrap_servers=url) as queue,
    ):
        records = polled(queue)
        with producer.transaction():
            done = producer.send("results", b"done")
            producer.accept_in_transaction(records)
        assert done.result().offset == 0
        assert all(record.is_settled for record in records)
        with pytest.raises(RuntimeError, match="already settled"):
            records[0].accept()
        assert lag(url) == 0
        assert queue.poll(timeout_ms=300) == []


def test_an_abort_gives_the_records_back(url: str) -> None:
    """At once, and nothing that was sent appears."""
    with (
        Producer(bootstrap_servers=url, transactional_id="worker") as producer,
        QueueConsumer("work", bootstrap_servers=url) as queue,
    ):
        records = polled(queue)
        producer.begin_transaction()
        lost = producer.send("results", b"done")
        producer.accept_in_transaction(records)
        producer.abort_transaction()
        assert isinstance(lost.exception(), TransactionAborted)
        again = polled(queue)
        assert [(record.offset, record.delivery_count) for record in again] == [(0, 2), (1, 2), (2, 2)]


def test_a_lease_that_is_over_ends_the_transaction(url: str) -> None:
    """It can't be committed: another worker may have the record."""
    with (
        Producer(bootstrap_servers=url, transactional_id="worker") as producer,
        QueueConsumer("work", bootstrap_servers=url) as queue,
    ):
        first = polled(queue)[0]
        stolen = QueueConsumer("work", bootstrap_servers=url)
        first.release(0).result(10)
        assert [record.offset for record in stolen.poll(timeout_ms=5_000)] == [0]
        first._settling = None  # as a worker that slept would have it
        producer.begin_transaction()
        with pytest.raises(LeaseExpired):
            producer.accept_in_transaction([first])
        with pytest.raises(LeaseExpired):
            producer.commit_transaction()
        stolen.close()


def test_from_asyncio(url: str) -> None:
    """The same, awaited."""

    async def work() -> None:
        async with (
            aio.Producer(bootstrap_servers=url, transactional_id="worker") as producer,
            aio.QueueConsumer("work", bootstrap_servers=url) as queue,
        ):
            records = await queue.poll(timeout_ms=5_000)
            async with producer.transaction():
                await producer.accept_in_transaction(records)

    asyncio.run(work())
    assert lag(url) == 0
