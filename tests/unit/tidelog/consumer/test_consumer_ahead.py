"""Unit tests of what a consumer fetches ahead, and of its deserializers, over the in-process gateway."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import eventually
from tidelog import Consumer, Record, TopicPartition
from tidelog.errors import CorruptSegment

PLACE = TopicPartition("t", 0)


pytestmark = pytest.mark.usefixtures("way")


def fetches(gateway: FakeGateway) -> int:
    return sum(1 for asked in list(gateway.asked) if asked.path.endswith(("/records", "/fetch")))


def test_the_next_answer_is_fetched_while_one_is_handed_out(gateway: FakeGateway) -> None:
    """One answer ahead comes without a poll that wants it, and no more than one, however long the consumer is away."""
    gateway.fill("t", 100)
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=100) as consumer:
        assert [record.offset for record in consumer.poll(5_000, 1)] == [0]
        assert eventually(lambda: fetches(gateway) == 2)
        for _ in range(3):
            consumer.has_ready()
        assert fetches(gateway) == 2


def test_what_was_fetched_ahead_is_dropped_by_a_seek_and_a_pause(gateway: FakeGateway) -> None:
    """After a seek the records from there come, and after a pause none; after it the right ones again."""
    gateway.fill("t", 100)
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=100) as consumer:
        consumer.poll(5_000, 1)
        assert eventually(lambda: fetches(gateway) == 2)
        consumer.seek(PLACE, 50)
        assert consumer.poll(5_000, 1)[0].offset == 50
        position = consumer.position(PLACE)
        consumer.pause(PLACE)
        with pytest.raises(ValueError, match="paused"):
            consumer.poll(0)
        consumer.resume(PLACE)
        read: list[int] = []
        while len(read) < 49:
            read += [record.offset for record in consumer.poll(5_000)]
        assert read == list(range(position, 100))


def test_an_error_ahead_comes_out_of_the_poll_that_wants_it(gateway: FakeGateway) -> None:
    """The records before a corrupt segment are returned first; then the poll raises, and the next one goes on."""
    gateway.fill("t", 100)
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=100) as consumer:
        first = consumer.poll(5_000, 1)
        assert eventually(lambda: fetches(gateway) == 2)
        # The answer ahead is there; the one behind it fails.
        gateway.misbehave(r".*(records|fetch)", refuse)
        read = [record.offset for record in first]
        with pytest.raises(CorruptSegment):
            read_on(consumer, read)
        while len(read) < 100:
            read += [record.offset for record in consumer.poll(5_000)]
        assert read == list(range(100))


def read_on(consumer: Consumer, read: list[int]) -> None:
    while True:
        read += [record.offset for record in consumer.poll(5_000)]


def refuse(exchange: Any) -> None:
    body = {"status": 500, "error_code": "CORRUPT_SEGMENT", "retryable": False, "may_have_happened": False}
    exchange.answer(500, json.dumps(body).encode(), {"Content-Type": "application/problem+json"})


def test_close_ends_the_thread_that_fetches_ahead(gateway: FakeGateway) -> None:
    """Also while a gateway does not answer; nothing of ours runs after it."""
    gateway.fill("t", 100)
    release = threading.Event()
    consumer = Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=100)
    consumer.poll(5_000)
    assert eventually(lambda: fetches(gateway) == 2)
    gateway.misbehave(r".*(records|fetch)", lambda exchange: release.wait(20))
    consumer.poll(5_000)
    assert eventually(lambda: fetches(gateway) == 3)
    consumer.close()
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("tidelog-fetch")]
    release.set()
    assert ours == []


def test_deserializers_make_keys_and_values(gateway: FakeGateway) -> None:
    """They see bytes and never null; what they return is the record's, in poll and iteration."""
    made = gateway.create("t", 1)
    made.records[0] = [Record("t", 0, 0, 0, None, b"7"), Record("t", 0, 1, 0, b"k", None)]
    settings: dict[str, Any] = {"key_deserializer": bytes.decode, "value_deserializer": json.loads}
    with Consumer("t", bootstrap_servers=gateway.url, consumer_timeout_ms=50, **settings) as consumer:
        assert [(record.key, record.value) for record in consumer.poll(5_000)] == [(None, 7), ("k", None)]
        consumer.seek(PLACE, 0)
        assert [(record.key, record.value) for record in consumer] == [(None, 7), ("k", None)]


def test_a_record_that_can_not_be_deserialized_is_not_passed_over(gateway: FakeGateway) -> None:
    """Those before it are returned; then each poll raises, and says where, until the user seeks past it."""
    made = gateway.create("t", 1)
    made.records[0] = [Record("t", 0, at, 0, None, value) for at, value in enumerate([b"1", b"2", b"{", b"4"])]
    with Consumer("t", bootstrap_servers=gateway.url, value_deserializer=json.loads) as consumer:
        assert [record.value for record in consumer.poll(5_000)] == [1, 2]
        for _ in range(2):
            with pytest.raises(json.JSONDecodeError) as raised:
                consumer.poll(5_000)
            assert raised.value.__notes__ == ["deserializing t/0 at offset 2"]
            assert consumer.position(PLACE) == 2
        with pytest.raises(json.JSONDecodeError):
            next(iter(consumer))
        consumer.seek(PLACE, 3)
        assert [record.value for record in consumer.poll(5_000)] == [4]


def test_all_topics_have_names(gateway: FakeGateway) -> None:
    """What there is can be listed before anything is assigned."""
    gateway.create("t", 1)
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        assert consumer.topics() == {"t"}


def read_until_broken(consumer: Consumer) -> list[int]:
    read: list[int] = []
    try:
        while len(read) < 100:
            read += [record.offset for record in consumer.poll(5_000)]
    except ZeroDivisionError:
        return read
    raise AssertionError("no poll raised")


def test_any_error_ahead_comes_out_of_the_poll(gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of our own in the thread is raised by the poll that wants the records; it never reads as no records."""
    gateway.fill("t", 100)
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=100) as consumer:
        read = [record.offset for record in consumer.poll(5_000, 1)]
        assert eventually(lambda: fetches(gateway) == 2)

        def broken(*args: Any, **named: Any) -> Any:
            raise ZeroDivisionError("a fault of our own")

        with monkeypatch.context() as patched:
            patched.setattr("tidelog.consumer.fetch_ahead.fetch_many", broken)
            patched.setattr("tidelog.consumer.fetch_ahead.fetch_arrow", broken)
            read += read_until_broken(consumer)
        while len(read) < 100:
            read += [record.offset for record in consumer.poll(5_000)]
        assert read == list(range(100))
