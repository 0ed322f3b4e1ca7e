"""Reading from a gateway that misbehaves: no record skipped or doubled, no hang beyond the time-outs, memory flat."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from typing import Any

import pytest

from log_format.errors import TidelogError
from tests.support.fake_gateway import FakeGateway
from tidelog import Admin, Consumer, Producer, Record, TopicPartition, aio
from tidelog.bodies.encode import ARROW

COUNT = 60


def fill(gateway: FakeGateway, count: int, value_bytes: int = 5) -> None:
    gateway.create("t").records[0] = [
        Record("t", 0, offset, offset, None, b"%0*d" % (value_bytes, offset)) for offset in range(count)
    ]


def lie(extra_bytes: int) -> Any:
    """A Content-Length that is too large or too small by so much; then the connection ends."""

    def fault(exchange: Any) -> None:
        status, headers, body = exchange.gateway.carry_out(exchange.asked)
        exchange.answer(status, body, headers, length=len(body) + extra_bytes)
        exchange.hang_up()

    return fault


def read_through(consumer: Consumer, count: int) -> tuple[list[int], list[TidelogError]]:
    """The offsets in the order in which they came, and what polls raised on the way."""
    offsets: list[int] = []
    raised: list[TidelogError] = []
    end = time.monotonic() + 30
    while len(offsets) < count and time.monotonic() < end:
        try:
            offsets += [record.offset for record in consumer.poll(500)]
        except TidelogError as error:
            raised.append(error)
    return offsets, raised


@pytest.mark.parametrize(
    "name", ["throttled", "down", "too long", "too short", "slow", "silent", "cut", "lost", "garbage", "foreign"]
)
def test_no_record_is_skipped_or_doubled(gateway: FakeGateway, name: str) -> None:
    """Whatever two answers in a row are: what is raised comes out of a poll, and the next one goes on where it was."""
    fill(gateway, COUNT)
    fault = {
        "throttled": gateway.refuse(429, "THROTTLED", retry_after=1),
        "down": gateway.refuse(503, "UNAVAILABLE", retry_after=1),
        "too long": lie(50),
        "too short": lie(-20),
        "slow": gateway.stall(0.3),
        "silent": gateway.stall(3),
        "cut": gateway.cut(),
        "lost": gateway.lose(done=True),
        "garbage": gateway.answer(200, b"\x00garbage", Content_Type=ARROW),
        "foreign": gateway.answer(502, b"<html>bad gateway</html>", Content_Type="text/html"),
    }[name]
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=100, request_timeout_ms=1_000) as consumer:
        consumer.poll(0, 1)
        consumer.seek(TopicPartition("t", 0), 0)
        gateway.misbehave("records|fetch", fault, fault)
        began = time.monotonic()
        offsets, raised = read_through(consumer, COUNT)
    assert offsets == list(range(COUNT))
    assert all(not error.may_have_happened for error in raised if error.code != "INTERNAL")
    assert time.monotonic() - began < 25


def test_memory_stays_flat_while_a_log_is_read_again_and_again(gateway: FakeGateway) -> None:
    """What is fetched and not handed out is bounded: reading 40 MB five times over holds no more than reading it once."""
    fill(gateway, 8_000, value_bytes=1_000)
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=256 * 1024) as consumer:
        tracemalloc.start()
        try:
            held = []
            for _ in range(5):
                consumer.seek(TopicPartition("t", 0), 0)
                seen = 0
                while seen < 8_000:
                    seen += consumer.poll_arrow(5_000).num_rows
                held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    assert max(held[1:]) - held[0] < 2 * 1024 * 1024


def test_everything_works_where_a_loop_runs_already(gateway: FakeGateway) -> None:
    """As in a notebook: plain clients and asyncio ones, both in a coroutine of the running loop."""

    async def cell() -> list[bytes | None]:
        with Admin(gateway.url) as admin, Producer(gateway.url) as producer:
            admin.create_topic("notebook")
            producer.send("notebook", b"plain").result(timeout=10)
            async with aio.Producer(gateway.url) as sending:
                await (await sending.send("notebook", b"asyncio"))
            with Consumer("notebook", bootstrap_servers=gateway.url) as consumer:
                found = consumer.poll(5_000)
            async with aio.Consumer("notebook", bootstrap_servers=gateway.url) as reading:
                again = await reading.poll(5_000)
        assert [record.value for record in again] == [record.value for record in found]
        return [record.value for record in found]

    assert asyncio.run(cell()) == [b"plain", b"asyncio"]
