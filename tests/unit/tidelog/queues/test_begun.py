"""A delivery counts when a handler begins with the record: what was only fetched comes back as it was."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import tidelog.aio
from tests.support.fake_gateway import FakeGateway
from tests.support.queue_consumers import actions, consumer, fill
from tests.support.waiting import eventually
from tidelog import QueueConsumer, QueueRecord, Record


def aio_consumer(gateway: FakeGateway) -> tidelog.aio.QueueConsumer:
    return tidelog.aio.QueueConsumer("q", bootstrap_servers=gateway.url, consumer_timeout_ms=200)


def counts(gateway: FakeGateway) -> dict[int, int]:
    """How often each record counts as delivered."""
    return {place[2]: count for place, count in gateway.queues["q"].deliveries.items() if count}


def is_free(gateway: FakeGateway) -> bool:
    """Whether no record is locked."""
    return not gateway.queues["q"].locks


def test_one_record_a_run(gateway: FakeGateway) -> None:
    """A program that takes one record, accepts it and ends, sees every record once."""
    fill(gateway, 12, max_deliveries=2)
    seen = []
    for _ in range(12):
        with consumer(gateway) as queue:
            for record in queue:
                seen.append((record.offset, record.delivery_count))
                record.accept()
                break
    assert seen == [(offset, 1) for offset in range(12)]


def test_a_failure_takes_no_other_record_with_it(gateway: FakeGateway) -> None:
    """Of 30 records one ends the program each time: it is dead, and no other is."""
    fill(gateway, 30, max_deliveries=3)
    seen = set()
    for _ in range(4):
        try:
            with consumer(gateway) as queue:
                for record in queue:
                    seen.add(record.offset)
                    if record.offset == 0:
                        raise RuntimeError("it can't be done")
                    record.accept()
        except RuntimeError:
            pass
    assert [record.offset for record, _ in gateway.queues["q"].dead] == [0]
    assert len(seen) == 30


def test_the_next_counts_when_it_is_handed_out(gateway: FakeGateway) -> None:
    """Of a consumer that is killed, what it had counts once its locks end; what waited there does not."""
    fill(gateway, 6)
    queue = consumer(gateway)
    handed = iter(queue)
    next(handed).accept()
    kept = next(handed)
    assert eventually(lambda: {place[2] for place in gateway.queues["q"].not_begun} == {2, 3, 4, 5})
    assert (kept.offset, kept.has_begun) == (1, True)
    queue.close()


@pytest.mark.parametrize("workers", [1, 4])
def test_a_run_that_is_stopped_gives_back_what_waits(gateway: FakeGateway, workers: int) -> None:
    """However often ``run`` is stopped, no record counts with which no handler began."""
    fill(gateway, 40, max_deliveries=2)
    begun = set()
    for _ in range(4):
        with consumer(gateway) as queue:

            def handle(record: QueueRecord, queue: QueueConsumer = queue) -> None:
                begun.add(record.offset)
                if len(begun) % 5 == 0:
                    queue.stop()
                time.sleep(0.01)

            queue.run(handle, workers=workers)
    assert set(counts(gateway)) == begun
    assert set(counts(gateway).values()) == {1}
    assert not gateway.queues["q"].dead


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, SystemExit, KeyboardInterrupt])
def test_whatever_a_handler_raises_its_record_is_released(gateway: FakeGateway, error: type[BaseException]) -> None:
    """It comes again; an exit is raised by ``run``, which ends."""
    fill(gateway, 3)
    failed = threading.Event()

    def handle(record: QueueRecord) -> None:
        if record.offset == 1 and not failed.is_set():
            failed.set()
            raise error

    with consumer(gateway) as queue:
        if error in {SystemExit, KeyboardInterrupt}:
            with pytest.raises(error):
                queue.run(handle)
            assert is_free(gateway)
        else:
            queue.run(handle)
            assert actions(gateway) == dict.fromkeys(range(3), "accept")
    with consumer(gateway) as queue:
        queue.run(handle)
    assert actions(gateway) == dict.fromkeys(range(3), "accept")


def test_an_aio_run_that_is_cancelled_strands_nothing(gateway: FakeGateway) -> None:
    """Whenever it is cancelled, the next ``run`` of the same consumer gets every record."""
    fill(gateway, 0)

    async def cancelled_at(pause_s: float, queue: tidelog.aio.QueueConsumer) -> None:
        async def handle(record: QueueRecord) -> None:
            await asyncio.sleep(0.02)

        running = asyncio.ensure_future(queue.run(handle, workers=4))
        await asyncio.sleep(pause_s)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def work() -> None:
        async with aio_consumer(gateway) as queue:
            await cancelled_at(0.05, queue)  # while it waits for records
            with gateway.changed:
                records = gateway.topics["t"].records[0]
                records += [Record("t", 0, at, at, b"k", b"%d" % at) for at in range(20)]
                gateway.changed.notify_all()
            for pause_s in (0.0, 0.005, 0.01, 0.03):
                await cancelled_at(pause_s, queue)

            async def accept(record: QueueRecord) -> None:
                assert not record.is_settled

            await queue.run(accept, workers=4)
            await queue.flush()

    asyncio.run(work())
    assert actions(gateway) == dict.fromkeys(range(20), "accept")


def test_an_aio_iteration_begins_one_at_a_time(gateway: FakeGateway) -> None:
    """What an iteration did not come to counts nothing."""
    fill(gateway, 5)

    async def work() -> None:
        async with aio_consumer(gateway) as queue:
            async for record in queue:
                await record.accept()
                if record.offset == 1:
                    break

    asyncio.run(work())
    assert counts(gateway) == {0: 1, 1: 1}
