"""Unit tests of ``tidelog.producer`` over the in-process gateway: what becomes of records."""

from __future__ import annotations

import os
import threading
import time
from queue import Queue
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import Producer, SentRecord, TidelogError
from tidelog.bodies.partitioner import partition_for_key
from tidelog.errors import (
    DeliveryFailed,
    DeliveryTimeout,
    InternalError,
    OutcomeUnknown,
    RecordTooLarge,
    UnexpectedAnswer,
    UnknownPartition,
    UnknownTopic,
)


def test_every_future_has_the_offset_of_its_own_record(gateway: FakeGateway) -> None:
    """A record's metadata names the place in the log where exactly this record lies, whatever its batch was."""
    gateway.create("t", 4)
    with Producer(gateway.url, linger_ms=1, batch_bytes=20_000) as producer:
        sent = []
        for number in range(3_000):
            key = None if number % 3 == 0 else f"key-{number % 50}"
            partition = number % 4 if number % 7 == 0 else None
            future = producer.send("t", f"value-{number}", key=key, partition=partition, timestamp_ms=number)
            sent.append((number, partition, key, future))
        for number, partition, key, future in sent:
            metadata = future.result(timeout=10)
            record = gateway.topics["t"].records[metadata.partition][metadata.offset]
            assert record.value == f"value-{number}".encode()
            assert record.timestamp_ms == metadata.timestamp_ms == number
            if partition is not None:
                assert metadata.partition == partition
            elif key is not None:
                assert metadata.partition == partition_for_key(key.encode(), 4)
    assert sum(map(len, gateway.topics["t"].records)) == 3_000


def test_new_partitions_are_known_with_the_next_answer(gateway: FakeGateway) -> None:
    """A key goes where other producers' records of it go, one answer after the topic grew: its records stay in order."""
    gateway.create("t", 1)
    key = next(key for number in range(100) if partition_for_key(key := b"%d" % number, 8) == 5)
    with Producer(gateway.url) as producer:
        assert producer.send("t", "before", key=key).result(timeout=10).partition == 0
        gateway.topics["t"].grow(8)
        assert producer.send("t", "at once", key=key).result(timeout=10).partition == 0
        assert producer.send("t", "after", key=key).result(timeout=10).partition == 5


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("count", [1, 500])
def test_bytes_are_exact_both_as_json_and_as_arrow(gateway: FakeGateway, count: int, compression: Any) -> None:
    """Keys, values and headers arrive byte for byte: null, empty, text, and what is no UTF-8."""
    gateway.create("t")
    odd = b"\xff\x00\xfe"
    headers = [("a", b"1"), ("a", None), ("bin", "é")]
    with Producer(gateway.url, compression=compression) as producer:
        for _ in range(count):
            producer.send("t", None)
            producer.send("t", b"", key=b"")
            producer.send("t", odd, key=odd, headers=headers)
            producer.send("t", "é", key="ключ", headers={"one": "x"})
            producer.send("t", bytearray(b"array"), key=memoryview(b"view"))
    records = gateway.topics["t"].records[0]
    assert len(records) == 5 * count
    expected = [
        (None, None, ()),
        (b"", b"", ()),
        (odd, odd, (("a", b"1"), ("a", None), ("bin", "é".encode()))),
        ("ключ".encode(), "é".encode(), (("one", b"x"),)),
        (b"view", b"array", ()),
    ]
    assert [(record.key, record.value, record.headers) for record in records] == expected * count


@pytest.mark.parametrize(("idempotent", "busy_max"), [(False, 1), (True, 5)])
def test_one_producers_records_keep_their_order(gateway: FakeGateway, idempotent: bool, busy_max: int) -> None:
    """Without sequence numbers two requests on their way could swap, so a topic has one; topics run in parallel."""
    for name in ("a", "b", "c"):
        gateway.create(name, 2)
    gateway.commit_seconds = 0.02
    with Producer(gateway.url, linger_ms=0, max_in_flight=8, enable_idempotence=idempotent) as producer:
        for number in range(600):
            producer.send("abc"[number % 3], str(number), partition=number % 2)
            if number % 20 == 0:
                time.sleep(0.002)
        producer.flush()
        for number in range(600, 700):  # now most threads have nothing else to do
            producer.send("a", str(number), partition=0)
            time.sleep(0.001)
    for name in ("a", "b", "c"):
        assert gateway.most_busy_produces[name] <= busy_max
        assert gateway.count(f"POST /v1/topics/{name}/records") > 1
        for values in gateway.values(name):
            numbers = [int(value or b"") for value in values]
            assert numbers == sorted(numbers)


def test_batches_grow_while_the_one_before_is_on_its_way(gateway: FakeGateway) -> None:
    """A slow gateway gets few large requests, not many small ones: what waits goes together."""
    gateway.create("t")
    gateway.commit_seconds = 0.2
    with Producer(gateway.url, linger_ms=0, batch_bytes=1_000, max_in_flight=1) as producer:
        producer.send("t", b"first")
        time.sleep(0.05)
        for _ in range(1_000):
            producer.send("t", b"x" * 100)
    assert gateway.count("POST .*/records") == 2


def test_linger_sends_without_a_flush_and_a_full_batch_without_lingering(gateway: FakeGateway) -> None:
    """A record that nobody waits for waits for company, at most ``linger_ms``, and not at all once the batch is full."""
    gateway.create("t")
    stored: Queue[float] = Queue()
    with Producer(gateway.url, linger_ms=100) as producer:
        began = time.monotonic()
        producer.send("t", b"x").add_done_callback(lambda _: stored.put(time.monotonic()))
        assert stored.get(timeout=5) - began >= 0.1
    with Producer(gateway.url, linger_ms=60_000, batch_bytes=1_000) as producer:
        futures = [producer.send("t", b"x" * 200) for _ in range(10)]
        futures[0].result(timeout=5)


def test_a_lone_record_that_is_waited_for_does_not_linger(gateway: FakeGateway) -> None:
    """One after another, or some at once: they go as soon as their caller waits, while nothing of the topic is on its way."""
    gateway.create("t")
    with Producer(gateway.url, linger_ms=60_000) as producer:
        for _ in range(5):
            producer.send("t", b"x").result(timeout=5)
        assert gateway.count("POST .*/records") == 5
        for _ in range(5):
            futures = [producer.send("t", b"x") for _ in range(10)]
            for future in futures:
                future.result(timeout=5)
        assert gateway.count("POST .*/records") == 10


def test_callers_that_wait_share_requests(gateway: FakeGateway) -> None:
    """Many threads, each of which waits for its record: as many records a request as by the linger alone."""
    gateway.create("t")
    with Producer(gateway.url, linger_ms=30) as producer:

        def one_by_one() -> None:
            for _ in range(10):
                producer.send("t", b"x").result(timeout=20)

        threads = [threading.Thread(target=one_by_one) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert gateway.count("POST .*/records") <= 25


def test_what_is_safe_to_repeat_is_repeated(gateway: FakeGateway, dead_url: str) -> None:
    """A refusal that changed nothing, and a connection never made, are tried again; each record is stored once."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.refuse(503, "OVERLOADED"), gateway.refuse(429, "THROTTLED"))
    with Producer([dead_url, gateway.url]) as producer:
        assert producer.send("t", b"x").result(timeout=10).offset == 0
    assert gateway.values("t") == [[b"x"]]
    assert gateway.count("POST .*/records") == 3


def test_retry_after_is_kept_to(gateway: FakeGateway) -> None:
    """The gateway says how long to stay away."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.refuse(503, "OVERLOADED", retry_after=1))
    with Producer(gateway.url) as producer:
        began = time.monotonic()
        producer.send("t", b"x").result(timeout=10)
        assert time.monotonic() - began >= 1


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_is_not_repeated(gateway: FakeGateway, done: bool) -> None:
    """Without a number the record may be in the log: sending it again could double it, so the caller is told."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.lose(done=done))
    producer = Producer(gateway.url, enable_idempotence=False)
    future = producer.send("t", b"x")
    with pytest.raises(OutcomeUnknown) as caught:
        future.result(timeout=10)
    assert caught.value.may_have_happened
    with pytest.raises(DeliveryFailed):
        producer.close()
    assert gateway.count("POST .*/records") == 1
    assert gateway.values("t") == [[b"x"] if done else []]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (("refuse", 500, "INTERNAL"), InternalError),
        (("refuse", 504, "OUTCOME_UNKNOWN"), OutcomeUnknown),
        (("cut",), OutcomeUnknown),
        (("answer", 200, b'{"topic":"t","partit'), UnexpectedAnswer),
        (("answer", 200, b'{"topic":"t","partitions":[]}'), UnexpectedAnswer),
        (
            ("answer", 200, b'{"topic":"t","partitions":[{"partition":0,"base_offset":0,"last_offset":8,"count":2}]}'),
            UnexpectedAnswer,
        ),
        (("answer", 502, b"<html>bad gateway</html>"), UnexpectedAnswer),
    ],
)
def test_a_gateway_that_does_not_say_clearly_what_happened_leaves_a_doubt(
    gateway: FakeGateway, fault: tuple[Any, ...], kind: type[TidelogError]
) -> None:
    """Cut, garbled and foreign answers are no acknowledgements, and without a number no licence to send again."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", getattr(gateway, fault[0])(*fault[1:]))
    with Producer(gateway.url, on_delivery=lambda error, record: None, enable_idempotence=False) as producer:
        error = producer.send("t", b"x").exception(timeout=10)
    assert type(error) is kind
    assert error.may_have_happened
    assert gateway.count("POST .*/records") == 1


def test_a_silent_gateway_is_given_up_when_the_delivery_time_is_over(gateway: FakeGateway) -> None:
    """No hang beyond the time-outs: a request whose answer does not come ends in doubt. What waited behind it is stored, or
    not sent any more; it is never sent so late that it could only end in doubt, too."""
    for name, second_after_s in (("a", 0.05), ("b", 0.4)):
        gateway.create(name)
        gateway.misbehave("POST .*/records", gateway.stall(6))
        with Producer(
            gateway.url,
            linger_ms=0,
            delivery_timeout_ms=500,
            on_delivery=lambda error, record: None,
            enable_idempotence=False,
        ) as producer:
            began = time.monotonic()
            first = producer.send(name, b"first")
            time.sleep(second_after_s)
            second = producer.send(name, b"second")
            assert isinstance(first.exception(timeout=10), OutcomeUnknown)
            assert time.monotonic() - began < 5
            error = second.exception(timeout=10)
            if error is not None:
                assert isinstance(error, DeliveryTimeout)
                assert not error.may_have_happened
            assert gateway.values(name) == [[] if error is not None else [b"second"]]


def test_records_are_reported_when_no_gateway_takes_them_in_time(dead_url: str) -> None:
    """What could not be delivered by ``delivery_timeout_ms`` is reported record by record, with the last error met."""
    reported: list[tuple[TidelogError | None, SentRecord]] = []
    with Producer(
        dead_url,
        linger_ms=50,  # one batch: one behind another may have no error of its own
        delivery_timeout_ms=400,
        on_delivery=lambda error, record: reported.append((error, record)),
    ) as producer:
        began = time.monotonic()
        futures = [producer.send("t", str(number), key=b"k", headers={"h": "1"}) for number in range(3)]
        for future in futures:
            error = future.exception(timeout=10)
            assert isinstance(error, DeliveryTimeout)
            assert not error.may_have_happened
            assert "Connection refused" in error.detail
        assert 0.04 < time.monotonic() - began < 5
    assert [(record.value, record.key, record.headers, record.offset) for _, record in reported] == [
        (str(number).encode(), b"k", (("h", b"1"),), None) for number in range(3)
    ]
    assert all(isinstance(error, DeliveryTimeout) for error, _ in reported)


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
def test_no_end_of_a_callback_ends_the_producer(gateway: FakeGateway, raised: type[BaseException]) -> None:
    """``sys.exit`` in a callback would end the thread that sends: later records would be lost, and their futures never end."""
    gateway.create("t", 1)
    told: list[int | None] = []

    def tell(_error: TidelogError | None, record: SentRecord) -> None:
        told.append(record.offset)
        raise raised

    with Producer(gateway.url, linger_ms=0, max_in_flight=1, on_delivery=tell) as producer:
        for number in range(3):
            future = producer.send("t", str(number), partition=0)
            assert future.result(timeout=10).offset == number
    assert told == [0, 1, 2]


def test_one_bad_record_does_not_take_its_batch_down(gateway: FakeGateway) -> None:
    """What is refused before sending is refused alone; its neighbours are stored, in order."""
    gateway.create("t", 2, max_message_bytes=1_000)
    with Producer(gateway.url, linger_ms=50, on_delivery=lambda error, record: None) as producer:
        good = [producer.send("t", str(number), partition=0) for number in range(3)]
        large = producer.send("t", b"x" * 2_000, partition=0)
        nowhere = producer.send("t", b"x", partition=7)
        more = producer.send("t", b"3", partition=0)
        assert isinstance(large.exception(timeout=10), RecordTooLarge)
        assert large.exception().fields["limit_bytes"] == 1_000  # type: ignore[union-attr]
        assert isinstance(nowhere.exception(timeout=10), UnknownPartition)
        assert [future.result(timeout=10).offset for future in [*good, more]] == [0, 1, 2, 3]
    assert gateway.values("t")[0] == [b"0", b"1", b"2", b"3"]


def test_a_changed_topic_is_looked_at_again(gateway: FakeGateway) -> None:
    """Partitions that came, or went with a topic made anew, and a limit that fell, are noticed without a new producer."""
    gateway.create("t", 1)
    with Producer(gateway.url, on_delivery=lambda error, record: None) as producer:
        producer.send("t", b"x", partition=0).result(timeout=10)
        gateway.topics["t"].grow(4)
        assert producer.send("t", b"x", partition=3).result(timeout=10).partition == 3
        gateway.create("t", 1)
        for _ in range(8):
            assert producer.send("t", b"x", key=os.urandom(4)).result(timeout=10).partition == 0
        gateway.topics["t"].config["max.message.bytes"] = 10
        bad, good = producer.send("t", b"x" * 11), producer.send("t", b"ok")
        assert isinstance(bad.exception(timeout=10), RecordTooLarge)
        assert good.result(timeout=10).offset == 8


@pytest.mark.parametrize("named", [True, False])
def test_requests_above_the_gateways_limit_are_cut(gateway: FakeGateway, named: bool) -> None:
    """A gateway with a smaller limit than the default gets smaller requests, and no record changes its place."""
    gateway.create("t", 3)
    gateway.request_bytes_max = 20_000
    with Producer(gateway.url, batch_bytes=100_000, linger_ms=200) as producer:
        futures = [producer.send("t", b"%04d" % n + b"x" * 100, partition=n % 3 if named else None) for n in range(800)]
        for number, future in enumerate(futures):
            metadata = future.result(timeout=10)
            assert (gateway.values("t")[metadata.partition][metadata.offset] or b"").startswith(b"%04d" % number)


def test_an_unknown_topic_fails_its_records_only(gateway: FakeGateway) -> None:
    """Each topic fails alone, with the contract's error and the request's id."""
    gateway.create("t")
    producer = Producer(gateway.url)
    lost, stored = producer.send("nowhere", b"x"), producer.send("t", b"x")
    assert stored.result(timeout=10).offset == 0
    error = lost.exception(timeout=10)
    assert isinstance(error, UnknownTopic)
    assert (error.status, error.retryable, error.may_have_happened, error.fields["topic"]) == (
        404,
        False,
        False,
        "nowhere",
    )
    assert len(error.request_id or "") == 32
    with pytest.raises(DeliveryFailed) as caught:
        producer.flush()
    assert caught.value.failed_count == 1
    assert caught.value.detail.startswith("1 record was not acknowledged; it is not stored: ")
    assert caught.value.__cause__ is error
    producer.flush()
    producer.close()
    producer.close()


def test_log_append_time_is_not_claimed_to_be_known(gateway: FakeGateway) -> None:
    """Where the gateway stamps records the client does not know the timestamp, and says so."""
    gateway.create("t", message_timestamp_type="LogAppendTime")
    with Producer(gateway.url) as producer:
        assert producer.send("t", b"x", timestamp_ms=5).result(timeout=10).timestamp_ms is None
