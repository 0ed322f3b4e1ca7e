"""The load of ``python -m benchmarks topics``: when requests are due, what counts as their latency, and how answers are read."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.load import parse_head
from benchmarks.topics.answers import Answers, Wakes
from benchmarks.topics.open_loop import Plan, drive, integer_member, text_member
from benchmarks.topics.schedule import Stream, due_times, topic_count

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n{"partitions":[{"base_offset": 0}]}'


def answers(due: list[float], done: list[float], code: list[int], **columns: list[int]) -> Answers:
    zeros = [0] * len(due)
    arrays: dict[str, Any] = {
        name: np.array(columns.get(name, zeros)) for name in ("topic", "gateway", "offset", "record_bytes")
    }
    return Answers(
        due=np.array(due),
        done=np.array(done),
        code=np.array(code),
        codes=("acknowledged", "no answer", "503 OVERLOADED"),
        cpu_seconds=0.0,
        connections=1,
        **arrays,
    )


async def _driven(serve: Serve, stream: Stream, starts_in_s: float = 0.05) -> Answers:
    """A load of 50 ms over one connection to this server."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    plan = Plan(ports=(port,), topics=("t",), streams=(stream,), seconds=0.05, connections_max=1)
    found = await drive(plan, time.monotonic() + starts_in_s)
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0.05)  # for connections that are being closed
    return Answers(**found["answers"])


def test_each_topic_gets_its_rate_evenly() -> None:
    """Requests are spread over the second, and each topic gets its own number of them."""
    due = list(due_times([Stream(topics=10, per_second=2)], 3.0))
    assert len(due) == 60
    assert all(after.seconds - before.seconds == pytest.approx(0.05) for before, after in pairwise(due))
    assert [each.number for each in due if each.topic == 7] == list(range(6))


def test_streams_are_merged_by_time() -> None:
    """Two streams become one order; the topics of the second follow those of the first."""
    streams = [Stream(topics=2, per_second=8, records=64), Stream(first_topic=2, topics=5, per_second=1)]
    due = list(due_times(streams, 2.0))
    assert due == sorted(due, key=lambda each: each.seconds)
    assert {each.topic for each in due if each.stream == 1} == {2, 3, 4, 5, 6}
    assert sum(each.stream == 0 for each in due) == 32
    assert topic_count(streams) == 7


def test_a_burst_is_due_at_once() -> None:
    """All topics of a burst are due at one moment, the next burst one period later."""
    due = list(due_times([Stream(topics=3, per_second=0.25, at_once=True)], 8.0))
    assert [each.seconds for each in due] == [0, 0, 0, 4, 4, 4]


def test_latency_counts_from_when_a_request_was_due() -> None:
    """Refused and unanswered requests have no latency, and are counted by code; a span is chosen by when they were due."""
    found = answers([0.0, 1.0, 2.0, 3.0], [0.5, 9.0, math.nan, 3.1], [0, 0, 1, 2], record_bytes=[10, 20, 40, 80])
    assert found.latency_ms().tolist() == [500, 8_000]
    assert found.refused() == {"no answer": 1, "503 OVERLOADED": 1}
    assert found.between(0.5, 2.5).refused() == {"no answer": 1}
    assert found.acknowledged_between(0, 4) == 1
    assert found.bytes_between(0, 10) == 30


def test_a_wake_up_counts_from_the_acknowledgement() -> None:
    """Each record of an answer counts by itself; records without an acknowledgement do not count."""
    sent = answers([0, 0, 0], [1.0, 2.0, math.nan], [0, 0, 1], topic=[4, 4, 4], offset=[7, 8, 9])
    wakes = Wakes(
        topic=np.array([4, 5]),
        gateway=np.array([0, 1]),
        start=np.array([7, 7]),
        end=np.array([10, 8]),
        at=np.array([2.5, 3.0]),
        refused_count=0,
    )
    waits, rows = wakes.after_acknowledgement_ms(sent)
    assert waits.tolist() == [1_500, 500]
    assert rows.tolist() == [0, 0]


def test_an_answers_head_is_read_once_it_is_complete() -> None:
    """Status, and where the body begins and ends, whatever the case of the header's name."""
    assert parse_head(bytearray(ANSWER[:30])) is None
    status, start, end = parse_head(bytearray(ANSWER)) or (0, 0, 0)
    assert (status, ANSWER[start : start + 4], end - start) == (200, b'{"pa', 34)


def test_members_are_found_without_parsing() -> None:
    """The first number or text behind a name; without the name -1 and nothing."""
    body = b'{"error_code":"OVERLOADED","base_offset":120,"last":{"base_offset":9}}'
    assert integer_member(body, b'"base_offset":') == 120
    assert integer_member(body, b'"next_offset":') == -1
    assert text_member(body, b'"error_code":"') == "OVERLOADED"
    assert text_member(body, b'"title":"') == ""


def test_a_slow_gateway_gets_no_fewer_requests() -> None:
    """Requests that wait for a connection count as late from when they were due: the loop is open."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                await asyncio.sleep(0.1)
                body = b'{"partitions":[{"base_offset":5}]}'
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    found = asyncio.run(_driven(serve, Stream(topics=1, per_second=100)))
    assert found.refused() == {}
    assert found.connections == 1
    assert found.offset.tolist() == [5] * 5
    late = found.latency_ms()
    assert (late > [95, 185, 275, 365, 455]).all()
    assert (np.diff(found.due) < 0.011).all()


def test_a_connection_that_the_gateway_closes_is_not_used_again() -> None:
    """A refusal with Connection: close costs only the refused request; the next ones go over a new connection."""
    served = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                await asyncio.sleep(0.02)
                served += 1
                if served == 1:
                    body = b'{"error_code":"OVERLOADED"}'
                    writer.write(
                        b"HTTP/1.1 503 No\r\nConnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
                    )
                    return
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    found = asyncio.run(_driven(serve, Stream(topics=1, per_second=100)))
    assert found.refused() == {"503 OVERLOADED": 1}
    assert len(found.due) == served == 5


def test_a_generator_that_is_late_does_not_flatter() -> None:
    """Requests that are sent behind their time count from it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer):
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    found = asyncio.run(_driven(serve, Stream(topics=1, per_second=100), starts_in_s=-2.0))
    assert found.refused() == {}
    assert (found.latency_ms() > 1_950).all()
