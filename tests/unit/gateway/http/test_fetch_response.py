"""Answers with records: what they hold, and when they give it back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from gateway.http.fetch_response import SENT_BYTES_MIN, WHOLE_BYTES_MAX, EventStreamResponse, RecordsResponse
from gateway.memory_budget import MemoryBudget
from log_format.errors import BackOff

SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": []}


class Client:
    """Takes ASGI messages; ``leave`` is its going away, ``read`` lets it read."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.left = asyncio.Event()
        self.begun = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        self.begun.set()
        if message["type"] == "http.response.body" and message.get("body"):
            await self.reads.wait()

    async def receive(self) -> Any:
        await self.left.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])


def response(
    pieces: Iterator[bytes], size_bytes: int, memory: MemoryBudget, pool: ThreadPoolExecutor
) -> RecordsResponse:
    return RecordsResponse(
        lambda: pieces,
        size_bytes=size_bytes,
        media_type="application/json",
        headers={"tidelog-next-offset": 7},
        reservation=memory.reserve(1000),
        pool=pool,
    )


@pytest.mark.parametrize("size_bytes", [10, 1 << 20, WHOLE_BYTES_MAX + 1])
async def test_small_and_large_answers_are_the_same_bytes(size_bytes: int) -> None:
    """Inline, in a thread, or piece by piece: the body is the same, and its memory is free when it is sent."""
    memory = MemoryBudget(1000, "answers")
    client = Client()
    with ThreadPoolExecutor(1) as pool:
        answer = response(iter([b"a", b"b" * 50, b"c"]), size_bytes, memory, pool)
        await answer(SCOPE, client.receive, client.send)
    assert client.body == b"a" + b"b" * 50 + b"c"
    headers = dict(client.messages[0]["headers"])
    assert headers[b"tidelog-next-offset"] == b"7"
    assert (headers.get(b"content-length") == b"52") is (size_bytes <= WHOLE_BYTES_MAX)
    assert not client.messages[-1].get("more_body")
    assert memory.used_bytes == 0


async def test_a_large_answer_makes_no_piece_before_the_last_is_sent() -> None:
    """A client that reads slowly holds one piece, not the whole answer."""
    made: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(5):
            made.append(number)
            yield b"x" * SENT_BYTES_MIN

    memory = MemoryBudget(1000, "answers")
    client = Client()
    client.reads.clear()
    with ThreadPoolExecutor(1) as pool:
        answer = response(pieces(), WHOLE_BYTES_MAX + 1, memory, pool)
        sending = asyncio.ensure_future(answer(SCOPE, client.receive, client.send))
        await asyncio.sleep(0.05)
        assert made == [0]
        assert memory.used_bytes == 1000
        client.reads.set()
        await sending
    assert made == [0, 1, 2, 3, 4]
    assert memory.used_bytes == 0


async def test_records_that_can_not_be_encoded_begin_no_answer() -> None:
    """The error comes before the first byte, so that it can be a problem of its own; memory is free."""

    def pieces() -> Iterator[bytes]:
        raise ValueError("broken")
        yield b""  # type: ignore[unreachable]

    for size_bytes in (10, WHOLE_BYTES_MAX + 1):
        memory = MemoryBudget(1000, "answers")
        client = Client()
        with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="broken"):
            await response(pieces(), size_bytes, memory, pool)(SCOPE, client.receive, client.send)
        assert client.messages == []
        assert memory.used_bytes == 0


@pytest.mark.parametrize("reads", [True, False])
async def test_a_stream_ends_when_its_client_leaves(reads: bool) -> None:
    """While it waits for records, and while an event is being sent: what the stream holds is given back at once."""
    closed = False

    async def events() -> AsyncGenerator[bytes, None]:
        nonlocal closed
        try:
            yield b"data: 1\n\n"
            await asyncio.Event().wait()
        finally:
            closed = True

    client = Client()
    if not reads:
        client.reads.clear()
    answer = EventStreamResponse(Request(SCOPE, client.receive), events(), headers={})
    sending = asyncio.ensure_future(answer(SCOPE, client.receive, client.send))
    await asyncio.sleep(0.02)
    assert not closed
    assert client.messages[0]["status"] == 200
    client.left.set()
    with pytest.raises(ClientDisconnect):
        await sending
    assert closed


def test_an_answer_takes_no_more_room_than_there_is() -> None:
    """Text that is many times its records is reserved where there is room; else it is sent on, not kept; or nothing is."""

    async def scenario(size_bytes: int, room_bytes: int) -> tuple[Client, list[int]]:
        made: list[int] = []

        def pieces() -> Iterator[bytes]:
            for number in range(20):
                made.append(number)
                yield b"x" * SENT_BYTES_MIN

        memory = MemoryBudget(room_bytes, "answers")
        client = Client()
        client.reads.clear()
        with ThreadPoolExecutor(1) as pool:
            answer = response(pieces(), size_bytes, memory, pool)
            sending = asyncio.ensure_future(answer(SCOPE, client.receive, client.send))
            await client.begun.wait()
            held = list(made)
            client.reads.set()
            await sending
        assert client.body == b"x" * 20 * SENT_BYTES_MIN
        assert memory.used_bytes == 0
        return client, held

    client, held = asyncio.run(scenario(100_000, 1 << 30))
    assert dict(client.messages[0]["headers"])[b"content-length"] == b"%d" % (20 * SENT_BYTES_MIN)
    client, held = asyncio.run(scenario(100_000, 1_500))
    assert len(held) <= 3
    assert b"content-length" not in dict(client.messages[0]["headers"])
    with pytest.raises(BackOff):
        asyncio.run(scenario_without_room())


async def scenario_without_room() -> None:
    memory = MemoryBudget(WHOLE_BYTES_MAX * 4, "answers")
    memory.reserve(WHOLE_BYTES_MAX * 3)
    with ThreadPoolExecutor(1) as pool:
        await response(iter([b"x"]), WHOLE_BYTES_MAX + 1, memory, pool)(SCOPE, Client().receive, Client().send)
