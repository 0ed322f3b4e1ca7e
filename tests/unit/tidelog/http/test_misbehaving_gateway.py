"""The producer against a gateway that lies, hangs and cuts: nothing lost, nothing doubled, no hang, memory flat."""

from __future__ import annotations

import gc
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until
from tidelog import Producer

REQUEST_TIMEOUT_MS = 500


@pytest.fixture
def cutting_url() -> Iterator[str]:
    """An address that reads the beginning of a request and resets the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(100)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(10)


@pytest.mark.parametrize("lie_bytes", [-10, 1_000])
def test_a_wrong_content_length_is_no_answer(gateway: FakeGateway, lie_bytes: int) -> None:
    """Too short leaves garbage on the connection, too long never ends: both are asked for again, on another connection."""
    gateway.create("t")

    def lie(exchange: Any) -> None:
        _, headers, body = gateway.carry_out(exchange.asked)
        exchange.answer(200, body, headers, length=len(body) + lie_bytes)

    gateway.misbehave("POST .*/records", lie, lie)
    with Producer(gateway.url, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer:
        futures = [producer.send("t", str(number)) for number in range(5)]
        assert [future.result(timeout=30).offset for future in futures] == list(range(5))
        assert producer.send("t", "5").result(timeout=30).offset == 5
    assert gateway.values("t") == [[b"0", b"1", b"2", b"3", b"4", b"5"]]


def test_a_request_that_was_given_up_may_be_done_later(gateway: FakeGateway) -> None:
    """A gateway that takes a request, is silent beyond the time-out and does it after its repetition doubles nothing."""
    gateway.create("t")
    released, done = threading.Event(), threading.Event()

    def late(exchange: Any) -> None:
        released.wait(30)
        gateway.carry_out(exchange.asked)
        done.set()
        exchange.hang_up()

    gateway.misbehave("POST .*/records", late)
    with Producer(gateway.url, request_timeout_ms=REQUEST_TIMEOUT_MS) as producer:
        assert producer.send("t", b"x").result(timeout=30).offset == 0
        released.set()
        assert done.wait(30)
        assert producer.send("t", b"y").result(timeout=30).offset == 1
    assert gateway.values("t") == [[b"x", b"y"]]


def test_a_request_cut_in_the_middle_goes_to_another_gateway(gateway: FakeGateway, cutting_url: str) -> None:
    """Resets while a large body is on its way don't fail it: another address takes the same number."""
    gateway.create("t")
    with Producer([cutting_url, gateway.url], request_timeout_ms=5_000) as producer:
        futures = [producer.send("t", b"%d" % number + b"x" * 500_000) for number in range(8)]
        assert [future.result(timeout=60).offset for future in futures] == list(range(8))
    assert [(value or b"")[:1] for value in gateway.values("t")[0]] == [b"%d" % number for number in range(8)]


def test_a_throttled_request_waits_as_long_as_it_was_told(gateway: FakeGateway) -> None:
    """A 429 is repeated under its number, not before its ``Retry-After``."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.refuse(429, "THROTTLED", retry_after=1))
    with Producer(gateway.url) as producer:
        started = time.monotonic()
        assert producer.send("t", b"x").result(timeout=30).offset == 0
        assert time.monotonic() - started >= 1
    assert gateway.values("t") == [[b"x"]]


def test_tables_are_stored_once_whatever_is_lost(gateway: FakeGateway) -> None:
    """A table's requests are numbered as records' are: lost, cut and refused answers neither double nor drop a row."""
    gateway.create("t")
    gateway.request_bytes_max = 60_000
    gateway.misbehave("POST .*/records", gateway.refuse(413, "REQUEST_TOO_LARGE", limit_bytes=60_000))
    faults = [gateway.lose(done=True), gateway.cut(), gateway.lose(done=False), gateway.refuse(503, "UNAVAILABLE")]
    gateway.misbehave("POST .*/records", *faults)
    rows = [b"%05d" % number + b"x" * 95 for number in range(2_000)]
    with Producer(gateway.url) as producer:
        assert producer.send_table("t", pa.table({"value": rows})).result(timeout=60).count == 2_000
        assert producer.send("t", b"after").result(timeout=30).offset == 2_000
    assert gateway.values("t") == [[*rows, b"after"]]


def test_memory_stays_flat_while_answers_are_lost(gateway: FakeGateway) -> None:
    """What is acknowledged is forgotten, however its answer came: the SDK holds no more after many records than after few."""
    gateway.create("t")
    ours = tracemalloc.Filter(True, str(Path(tidelog.__file__).parent / "*"))

    def held() -> int:
        gc.collect()  # errors and their tracebacks are cycles, which a process full of other tests collects late
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([ours]).traces)

    tracemalloc.start()
    try:
        with Producer(gateway.url, linger_ms=1) as producer:
            for number in range(8):
                gateway.misbehave("POST .*/records", gateway.lose(done=True))
                for _ in range(1_000):
                    producer.send("t", b"x" * 100)
                producer.flush(timeout=60)
                if number == 2:
                    first = held()
            # A thousand futures and their records are 200 kB and more. The last ones go when their threads are done with them.
            until(lambda: held() - first < 100_000, every=0.1)
    finally:
        tracemalloc.stop()
    assert len(gateway.values("t")[0]) == 8_000
