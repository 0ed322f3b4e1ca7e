"""Unit tests of ``tidelog.producer`` over the in-process gateway: memory, threads, futures, beginning and end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import threading
import time

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until
from tidelog import Producer, RecordMetadata, SentRecord, TidelogError
from tidelog.errors import (
    BufferFull,
    ClientClosed,
    DeliveryFailed,
    OutcomeUnknown,
)


def test_a_full_buffer_blocks_and_then_refuses(gateway: FakeGateway) -> None:
    """Memory is bounded: ``send`` waits for room, and raises when none comes in time; nothing of it is sent then."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.stall(4))
    with Producer(gateway.url, linger_ms=0, batch_bytes=1_000, buffer_bytes=4_000, max_block_ms=100) as producer:
        producer.send("t", b"first")
        time.sleep(0.05)
        stored = 1
        began = time.monotonic()
        with pytest.raises(BufferFull) as caught:  # noqa: PT012
            for _ in range(100):
                producer.send("t", b"x" * 200)
                stored += 1
        assert 0.1 <= time.monotonic() - began < 3.5
        assert stored < 20
        assert caught.value.retryable
        with pytest.raises(BufferFull, match="raise buffer_bytes"):
            producer.send("t", b"x" * 5_000)
    assert len(gateway.values("t")[0]) == stored


def test_room_is_made_however_long_records_may_linger(gateway: FakeGateway) -> None:
    """A buffer full of lingering batches is sent at once, instead of blocking until they have lingered."""
    for name in "abcd":
        gateway.create(name)
    with Producer(gateway.url, linger_ms=60_000, batch_bytes=4_000, buffer_bytes=4_000) as producer:
        for number in range(100):
            producer.send("abcd"[number % 4], b"x" * 200)
    assert sum(len(gateway.values(name)[0]) for name in "abcd") == 100


def test_close_with_a_time_limit_gives_up_what_is_left(gateway: FakeGateway) -> None:
    """It returns soon, ends the threads, and every future is finished: in doubt what was on its way, the rest not sent."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.stall(5))
    producer = Producer(gateway.url, linger_ms=0, enable_idempotence=False)
    first = producer.send("t", b"first")
    time.sleep(0.1)
    second = producer.send("t", b"second")
    began = time.monotonic()
    with pytest.raises(DeliveryFailed):
        producer.close(timeout=0.2)
    assert time.monotonic() - began < 4
    assert isinstance(first.exception(timeout=0), OutcomeUnknown)
    assert isinstance(second.exception(timeout=0), ClientClosed)
    with pytest.raises(RuntimeError, match="closed"):
        producer.send("t", b"x")


def test_the_blocks_own_exception_comes_out(gateway: FakeGateway) -> None:
    """A failed delivery does not hide why the block ended; and what was sent before is delivered."""
    gateway.create("t")
    with pytest.raises(KeyError), Producer(gateway.url) as producer:  # noqa: PT012
        producer.send("t", b"x")
        producer.send("nowhere", b"x")
        raise KeyError
    assert gateway.values("t") == [[b"x"]]


def test_a_forgotten_producer_delivers_and_ends(gateway: FakeGateway) -> None:
    """Collected as garbage it sends what it holds and ends its threads."""
    gateway.create("t")
    producer = Producer(gateway.url, linger_ms=10_000)
    producer.send("t", b"x")
    del producer
    gc.collect()
    assert gateway.values("t") == [[b"x"]]


def test_futures_are_those_of_the_standard_library(gateway: FakeGateway) -> None:
    """``wait``, ``as_completed``, ``asyncio.wrap_future`` and several threads at once work with them."""
    gateway.create("t")
    gateway.commit_seconds = 0.1
    with Producer(gateway.url) as producer:
        futures = [producer.send("t", str(number)) for number in range(20)]
        assert not futures[0].cancel()
        assert futures[0].running()
        with pytest.raises(TimeoutError):
            futures[0].result(timeout=0.01)
        results: list[RecordMetadata] = []
        threads = [threading.Thread(target=lambda: results.append(futures[7].result(5))) for _ in range(3)]
        for thread in threads:
            thread.start()
        done, left = concurrent.futures.wait(futures, timeout=5)
        assert len(done) == 20
        assert not left
        for thread in threads:
            thread.join()
        assert [result.offset for result in results] == [7, 7, 7]
        more = [producer.send("t", b"x") for _ in range(5)]
        assert {future.result().offset for future in concurrent.futures.as_completed(more, timeout=5)} == {
            *range(20, 25)
        }

        async def wait() -> int:
            return (await asyncio.wrap_future(producer.send("t", b"x"))).offset

        assert asyncio.run(wait()) == 25


def test_many_threads_share_a_producer(gateway: FakeGateway) -> None:
    """Every record of every thread is stored once, and each thread's in its order."""
    gateway.create("t", 3)
    with Producer(gateway.url, linger_ms=1, batch_bytes=5_000) as producer:

        def send(thread: int) -> None:
            for number in range(500):
                producer.send("t", f"{thread} {number}", partition=thread % 3)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    values = [(value or b"").decode().split() for log in gateway.values("t") for value in log]
    assert len(values) == 3_000
    for thread in range(6):
        assert [int(number) for name, number in values if int(name) == thread] == list(range(500))


def test_serializers_and_what_is_no_record(gateway: FakeGateway) -> None:
    """Values of any type go through their serializer; what can't be a record is refused where it is made."""
    gateway.create("t")
    with Producer(
        gateway.url, key_serializer=str, value_serializer=lambda value: None if value is None else str(value)
    ) as p:
        p.send("t", 3, key=4)
        p.send("t")
    assert [(record.key, record.value) for record in gateway.topics["t"].records[0]] == [(b"4", b"3"), (b"None", None)]
    with Producer(gateway.url) as producer:
        for wrong in ({"value": 3}, {"key": 3}, {"headers": [(1, b"x")]}, {"headers": {"a": 1}}):
            with pytest.raises(TypeError):
                producer.send("t", **wrong)
        for outside in ({"partition": -1}, {"timestamp_ms": -1}, {"timestamp_ms": 253402300800000}):
            with pytest.raises(ValueError, match=r"partition|timestamp_ms"):
                producer.send("t", b"x", **outside)  # type: ignore[arg-type]
    for wrong_setting in ({"linger_ms": -1}, {"batch_bytes": 0}, {"buffer_bytes": 1}, {"compression": "lz4"}):
        with pytest.raises(ValueError, match=next(iter(wrong_setting))):
            Producer(gateway.url, **wrong_setting)


def test_a_callback_that_waits_for_itself_is_refused(gateway: FakeGateway) -> None:
    """``flush`` from the sending thread could only end by its time-out; it is refused instead, and does no harm."""
    gateway.create("t")
    raised: list[BaseException] = []

    def on_delivery(error: TidelogError | None, record: SentRecord) -> None:
        for wait in (producer.flush, producer.close):
            try:
                wait()
            except RuntimeError as refusal:
                raised.append(refusal)

    producer = Producer(gateway.url, on_delivery=on_delivery)
    producer.send("t", b"x")
    until(lambda: len(raised) == 2)
    producer.close()
    assert len(raised) == 2


def test_on_delivery_tells_of_success_and_its_own_faults_harm_nobody(gateway: FakeGateway) -> None:
    """A callback that raises does not stop the deliveries behind it."""
    gateway.create("t")
    told: list[int | None] = []

    def on_delivery(error: TidelogError | None, record: SentRecord) -> None:
        told.append(record.offset)
        raise RuntimeError("a fault of the user's")

    # Nothing is sent before the end of the block: the callback is there in time, and the three are one batch.
    with Producer(gateway.url, on_delivery=on_delivery, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"x") for _ in range(3)]
        futures[0].add_done_callback(lambda future: told.append(future.result().offset + 100))
    assert told == [100, 0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_loudly(gateway: FakeGateway) -> None:
    """The child has the parent's sockets and none of its threads: it must not get away with using them."""
    gateway.create("t")
    with Producer(gateway.url) as producer:
        producer.send("t", b"x").result(timeout=10)
        child = os.fork()
        if child == 0:
            try:
                producer.send("t", b"y")
            except RuntimeError as error:
                os._exit(7 if "fork" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        producer.send("t", b"z").result(timeout=10)
    assert gateway.values("t") == [[b"x", b"z"]]
