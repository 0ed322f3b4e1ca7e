"""Unit tests of ``tidelog.producer``, over the in-process gateway."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from tidelog import Producer, RecordMetadata, SentRecord, TidelogError
from tidelog.errors import (
    BufferFull,
    ClientClosed,
    DeliveryFailed,
    DeliveryTimeout,
    InternalError,
    OutcomeUnknown,
    RecordTooLarge,
    UnexpectedAnswer,
    UnknownPartition,
    UnknownTopic,
)
from tidelog.partitioner import partition_for_key


def test_every_future_has_the_offset_of_its_own_record(gateway: Any) -> None:
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


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("count", [1, 500])
def test_bytes_are_exact_both_as_json_and_as_arrow(gateway: Any, count: int, compression: Any) -> None:
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


def test_one_producers_records_keep_their_order_and_one_request_of_a_topic_is_on_its_way(gateway: Any) -> None:
    """Without sequence numbers two requests on their way could change places, so a topic has one; topics run in parallel."""
    for name in ("a", "b", "c"):
        gateway.create(name, 2)
    gateway.commit_seconds = 0.02
    with Producer(gateway.url, linger_ms=0, max_in_flight=3) as producer:
        for number in range(600):
            producer.send("abc"[number % 3], str(number), partition=number % 2)
            if number % 20 == 0:
                time.sleep(0.002)
        producer.flush()
        for number in range(600, 700):  # now two of three threads have nothing else to do
            producer.send("a", str(number), partition=0)
            time.sleep(0.001)
    for name in ("a", "b", "c"):
        assert gateway.most_busy_produces[name] == 1
        assert gateway.count(f"POST /v1/topics/{name}/records") > 1
        for values in gateway.values(name):
            numbers = [int(value) for value in values]
            assert numbers == sorted(numbers)


def test_batches_grow_while_the_one_before_is_on_its_way(gateway: Any) -> None:
    """A slow gateway gets few large requests, not many small ones: what waits goes together."""
    gateway.create("t")
    gateway.commit_seconds = 0.2
    with Producer(gateway.url, linger_ms=0, batch_bytes=1_000) as producer:
        producer.send("t", b"first")
        time.sleep(0.05)
        for _ in range(1_000):
            producer.send("t", b"x" * 100)
    assert gateway.count("POST .*/records") == 2


def test_linger_sends_without_a_flush_and_a_full_batch_without_lingering(gateway: Any) -> None:
    """A record waits for company at most ``linger_ms``, and not at all once the batch is full."""
    gateway.create("t")
    with Producer(gateway.url, linger_ms=100) as producer:
        began = time.monotonic()
        producer.send("t", b"x").result(timeout=5)
        assert 0.1 <= time.monotonic() - began < 5
    with Producer(gateway.url, linger_ms=60_000, batch_bytes=1_000) as producer:
        futures = [producer.send("t", b"x" * 200) for _ in range(10)]
        futures[0].result(timeout=5)


def test_what_is_safe_to_repeat_is_repeated(gateway: Any, dead_url: str) -> None:
    """A refusal that changed nothing, and a connection never made, are tried again; each record is stored once."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.refuse(503, "OVERLOADED"), gateway.refuse(429, "THROTTLED"))
    with Producer([dead_url, gateway.url]) as producer:
        assert producer.send("t", b"x").result(timeout=10).offset == 0
    assert gateway.values("t") == [[b"x"]]
    assert gateway.count("POST .*/records") == 3


def test_retry_after_is_kept_to(gateway: Any) -> None:
    """The gateway says how long to stay away."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.refuse(503, "OVERLOADED", retry_after=1))
    with Producer(gateway.url) as producer:
        began = time.monotonic()
        producer.send("t", b"x").result(timeout=10)
        assert time.monotonic() - began >= 1


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_is_not_repeated(gateway: Any, done: bool) -> None:
    """The record may be in the log: sending it again could double it, so the caller is told."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.lose(done=done))
    producer = Producer(gateway.url)
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
    gateway: Any, fault: tuple[Any, ...], kind: type[TidelogError]
) -> None:
    """Cut, garbled and foreign answers are no acknowledgements and no licence to send again."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", getattr(gateway, fault[0])(*fault[1:]))
    with Producer(gateway.url, on_delivery=lambda error, record: None) as producer:
        error = producer.send("t", b"x").exception(timeout=10)
    assert type(error) is kind
    assert error.may_have_happened
    assert gateway.count("POST .*/records") == 1


def test_a_silent_gateway_is_given_up_when_the_delivery_time_is_over(gateway: Any) -> None:
    """No hang beyond the time-outs: a request whose answer does not come ends in doubt. What waited behind it is stored, or
    not sent any more; it is never sent so late that it could only end in doubt, too."""
    for name, second_after_s in (("a", 0.05), ("b", 0.4)):
        gateway.create(name)
        gateway.misbehave("POST .*/records", gateway.stall(6))
        with Producer(
            gateway.url, linger_ms=0, delivery_timeout_ms=500, on_delivery=lambda error, record: None
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
        dead_url, delivery_timeout_ms=400, on_delivery=lambda error, record: reported.append((error, record))
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


def test_on_delivery_tells_of_success_and_its_own_faults_harm_nobody(gateway: Any) -> None:
    """A callback that raises does not stop the deliveries behind it."""
    gateway.create("t")
    told: list[int | None] = []

    def on_delivery(error: TidelogError | None, record: SentRecord) -> None:
        told.append(record.offset)
        raise RuntimeError("a fault of the user's")

    with Producer(gateway.url, on_delivery=on_delivery) as producer:
        futures = [producer.send("t", b"x") for _ in range(3)]
        futures[0].add_done_callback(lambda future: told.append(future.result().offset + 100))
    assert told == [100, 0, 1, 2]


def test_a_callback_that_waits_for_itself_is_refused(gateway: Any) -> None:
    """``flush`` from the sending thread could only end by its time-out; it is refused instead, and harms nobody."""
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
    deadline = time.monotonic() + 10
    while len(raised) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    producer.close()
    assert len(raised) == 2


def test_one_bad_record_does_not_take_its_batch_down(gateway: Any) -> None:
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


def test_a_changed_topic_is_looked_at_again(gateway: Any) -> None:
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
def test_requests_above_the_gateways_limit_are_cut(gateway: Any, named: bool) -> None:
    """A gateway with a smaller limit than the default gets smaller requests, and no record changes its place."""
    gateway.create("t", 3)
    gateway.request_bytes_max = 20_000
    with Producer(gateway.url, batch_bytes=100_000, linger_ms=200) as producer:
        futures = [producer.send("t", b"%04d" % n + b"x" * 100, partition=n % 3 if named else None) for n in range(800)]
        for number, future in enumerate(futures):
            metadata = future.result(timeout=10)
            assert gateway.values("t")[metadata.partition][metadata.offset].startswith(b"%04d" % number)


def test_an_unknown_topic_fails_its_records_only(gateway: Any) -> None:
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
    assert caught.value.__cause__ is error
    producer.flush()
    producer.close()
    producer.close()


def test_a_full_buffer_blocks_and_then_refuses(gateway: Any) -> None:
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


def test_room_is_made_however_long_records_may_linger(gateway: Any) -> None:
    """A buffer full of lingering batches is sent at once, instead of blocking until they have lingered."""
    for name in "abcd":
        gateway.create(name)
    with Producer(gateway.url, linger_ms=60_000, batch_bytes=4_000, buffer_bytes=4_000) as producer:
        for number in range(100):
            producer.send("abcd"[number % 4], b"x" * 200)
    assert sum(len(gateway.values(name)[0]) for name in "abcd") == 100


def test_close_with_a_time_limit_gives_up_what_is_left(gateway: Any) -> None:
    """It returns soon, ends the threads, and every future is finished: in doubt what was on its way, the rest not sent."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.stall(5))
    producer = Producer(gateway.url, linger_ms=0)
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


def test_the_blocks_own_exception_comes_out(gateway: Any) -> None:
    """A failed delivery does not hide why the block ended; and what was sent before is delivered."""
    gateway.create("t")
    with pytest.raises(KeyError), Producer(gateway.url) as producer:  # noqa: PT012
        producer.send("t", b"x")
        producer.send("nowhere", b"x")
        raise KeyError
    assert gateway.values("t") == [[b"x"]]


def test_a_forgotten_producer_delivers_and_ends(gateway: Any) -> None:
    """Collected as garbage it sends what it holds and ends its threads."""
    gateway.create("t")
    producer = Producer(gateway.url, linger_ms=10_000)
    producer.send("t", b"x")
    del producer
    gc.collect()
    assert gateway.values("t") == [[b"x"]]


def test_futures_are_those_of_the_standard_library(gateway: Any) -> None:
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


def test_many_threads_share_a_producer(gateway: Any) -> None:
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
    values = [value.decode().split() for log in gateway.values("t") for value in log]
    assert len(values) == 3_000
    for thread in range(6):
        assert [int(number) for name, number in values if int(name) == thread] == list(range(500))


def test_serializers_and_what_is_no_record(gateway: Any) -> None:
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
                producer.send("t", **wrong)  # type: ignore[arg-type]
        for outside in ({"partition": -1}, {"timestamp_ms": -1}, {"timestamp_ms": 253402300800000}):
            with pytest.raises(ValueError, match=r"partition|timestamp_ms"):
                producer.send("t", b"x", **outside)  # type: ignore[arg-type]
    for wrong_setting in ({"linger_ms": -1}, {"batch_bytes": 0}, {"buffer_bytes": 1}, {"compression": "lz4"}):
        with pytest.raises(ValueError, match=next(iter(wrong_setting))):
            Producer(gateway.url, **wrong_setting)  # type: ignore[arg-type]


def test_log_append_time_is_not_claimed_to_be_known(gateway: Any) -> None:
    """Where the gateway stamps records the client does not know the timestamp, and says so."""
    gateway.create("t", message_timestamp_type="LogAppendTime")
    with Producer(gateway.url) as producer:
        assert producer.send("t", b"x", timestamp_ms=5).result(timeout=10).timestamp_ms is None


def test_tables_go_in_order_and_in_pieces(gateway: Any) -> None:
    """A table's rows follow what was sent before it, each once, however many requests it takes."""
    gateway.create("t", 2)
    gateway.request_bytes_max = 60_000
    rows = 2_000
    table = pa.table(
        {"value": [b"%05d" % n + b"x" * 95 for n in range(rows)], "partition": [n % 2 for n in range(rows)]}
    )
    with Producer(gateway.url, linger_ms=1_000) as producer:
        producer.send("t", b"before", partition=0)
        result = producer.send_table("t", table).result(timeout=10)
        producer.send("t", b"after", partition=0)
        assert producer.send_table("t", table.slice(0, 0)).result(timeout=10).count == 0
    assert result.count == rows
    even = gateway.values("t")[0]
    assert even[0] == b"before"
    assert even[-1] == b"after"
    assert [int(value[:5]) for value in even[1:-1]] == list(range(0, rows, 2))
    assert [int(value[:5]) for value in gateway.values("t")[1]] == list(range(1, rows, 2))
    assert gateway.count("POST .*/records") > 3


def test_a_tables_later_pieces_are_not_sent_when_an_earlier_one_fails(gateway: Any) -> None:
    """No hole in the middle of a table: what is behind a failure stays out, and the error says how far it came."""
    gateway.create("t")
    gateway.request_bytes_max = 60_000
    table = pa.table({"value": [b"x" * 100] * 2_000})
    producer = Producer(gateway.url)
    producer.send("t", b"x").result(timeout=10)
    gateway.misbehave("POST .*/records", gateway.refuse(413, "REQUEST_TOO_LARGE", limit_bytes=60_000))
    gateway.misbehave(
        "POST .*/records", *[lambda exchange: exchange.carry_out()] * 2, gateway.refuse(400, "INVALID_RECORD")
    )
    future = producer.send_table("t", table)
    error = future.exception(timeout=10)
    assert error is not None
    stored = len(gateway.values("t")[0]) - 1
    assert 0 < stored < 2_000
    assert error.__notes__ == [f"The first {stored} of 2000 rows are stored."]
    with pytest.raises(DeliveryFailed) as caught:
        producer.close()
    assert caught.value.failed_count == 2_000 - stored


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_loudly(gateway: Any) -> None:
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
