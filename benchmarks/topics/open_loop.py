"""An open-loop load generator, and readers that wait, in one process of its own.

Each request is sent when it is due, over a connection that is free; while none is, and no more may be opened, it waits here.
Latency counts from when it was due. A refused request is not repeated. Requests are prepared bytes, connections are raw HTTP/1.1
over asyncio, so that the generator leaves the cores to the gateway; its CPU is counted.
"""

from __future__ import annotations

import asyncio
import gc
import math
import time
from array import array
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import numpy as np

from benchmarks.harness.bodies import json_requests
from benchmarks.harness.load import parse_head, request
from benchmarks.harness.scenario import Running
from benchmarks.topics.answers import ACKNOWLEDGED, CODES, UNANSWERED, Answers, Wakes
from benchmarks.topics.schedule import Stream, due_times

CONNECTIONS_MAX: Final = 900
"""To each gateway: below its default ``connections_max``."""
ANSWER_SECONDS_MAX: Final = 15.0
"""How long the generator waits for answers after the last request."""
START_SECONDS: Final = 3.0
"""From the order until the first request is due: the process starts, makes the requests, and readers begin to wait."""
READER_WAIT_MS: Final = 20_000
READER_SECONDS: Final = 3.0
"""How long readers go on behind the last answer."""
READERS_PER_SECOND: Final = 250
"""How many begin to wait in a second, at least."""
LATE_REQUESTS: Final = 16
"""A generator that is late sends so many requests between two looks for answers."""
_BASE_OFFSET: Final = b'"base_offset":'
_NEXT_OFFSET: Final = b'"next_offset":'
_ERROR_CODE: Final = b'"error_code":"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A load. A topic's requests go in turn to the gateways ``receivers``, all by default, of those at ``ports``.

    Reader ``(topic, gateway)`` waits there for what comes behind the topic's end.
    """

    ports: tuple[int, ...]
    topics: tuple[str, ...]
    streams: tuple[Stream, ...]
    seconds: float
    receivers: tuple[int, ...] = ()
    readers: tuple[tuple[int, int], ...] = ()
    connections_max: int = CONNECTIONS_MAX
    """To each gateway, readers apart."""


class _Sink(Protocol):
    def answered(self, connection: _Connection, status: int, body: bytes) -> None: ...

    def lost(self, connection: _Connection) -> None: ...


class _Connection(asyncio.Protocol):
    """One request at a time; its answer goes to the sink."""

    def __init__(self, sink: _Sink) -> None:
        self.request = -1
        """The number of the request under way; -1: none."""
        self.is_last = False
        """The gateway closes the connection behind this answer."""
        self._sink = sink
        self._buffer = bytearray()
        self._head: tuple[int, int, int] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, number: int, data: bytes) -> None:
        assert self._transport is not None
        self.request = number
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._head is None:
            self._head = parse_head(self._buffer)
        if self._head is not None and len(self._buffer) >= self._head[2]:
            status, start, end = self._head
            body = bytes(self._buffer[start:end])
            self.is_last = status != 200 and b"connection: close" in self._buffer[:start].lower()
            self._buffer.clear()
            self._head = None
            self._sink.answered(self, status, body)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._sink.lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class _Sent:
    """The rows of ``Answers``, one for each request that was due."""

    def __init__(self) -> None:
        self.due = array("d")
        self.done = array("d")
        self.code = array("B")
        self.topic = array("l")
        self.gateway = array("B")
        self.offset = array("q")
        self.record_bytes = array("l")
        self.codes = list(CODES)
        self.open_count = 0

    def add(self, due: float, topic: int, gateway: int, record_bytes: int) -> int:
        self.due.append(due)
        self.done.append(math.nan)
        self.code.append(UNANSWERED)
        self.topic.append(topic)
        self.gateway.append(gateway)
        self.offset.append(-1)
        self.record_bytes.append(record_bytes)
        self.open_count += 1
        return len(self.due) - 1

    def answered(self, number: int, status: int, body: bytes) -> None:
        self.open_count -= 1
        self.done[number] = time.monotonic()
        if status == 200:
            self.code[number] = ACKNOWLEDGED
            self.offset[number] = integer_member(body, _BASE_OFFSET)
        else:
            self.code[number] = self._code(f"{status} {text_member(body, _ERROR_CODE)}")

    def failed(self, number: int, code: str) -> None:
        self.open_count -= 1
        self.code[number] = self._code(code)

    def _code(self, code: str) -> int:
        if code not in self.codes:
            self.codes.append(code)
        return self.codes.index(code)


class _Pool:
    """The connections to one gateway. A request takes the one used last, so that no more are opened than needed."""

    def __init__(self, port: int, sent: _Sent, count_max: int) -> None:
        self._count_max = count_max
        self.count = 0
        self.count_most = 0
        self._port = port
        self._sent = sent
        self._idle: list[_Connection] = []
        self._backlog: deque[tuple[int, bytes]] = deque()
        self._all: set[_Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()

    def ask(self, number: int, data: bytes) -> None:
        if self._idle:
            self._idle.pop().send(number, data)
            return
        self._backlog.append((number, data))
        if self.count < self._count_max:
            self._open_one()

    def answered(self, connection: _Connection, status: int, body: bytes) -> None:
        number, connection.request = connection.request, -1
        self._sent.answered(number, status, body)
        if connection.is_last:
            connection.close()
        else:
            self._go_on(connection)

    def lost(self, connection: _Connection) -> None:
        self.count -= 1
        self._all.discard(connection)
        if connection.request >= 0:
            self._sent.failed(connection.request, "connection lost")
        elif connection in self._idle:
            self._idle.remove(connection)
        if self._backlog and self.count < self._count_max:
            self._open_one()

    def close(self) -> None:
        self._backlog.clear()
        for connection in tuple(self._all):
            connection.close()

    def _go_on(self, connection: _Connection) -> None:
        if self._backlog:
            connection.send(*self._backlog.popleft())
        else:
            self._idle.append(connection)

    def _open_one(self) -> None:
        self.count += 1
        self.count_most = max(self.count_most, self.count)
        task = asyncio.create_task(self._open())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection = (await loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._port))[1]
        except OSError:
            self.count -= 1
            if self._backlog:
                self._sent.failed(self._backlog.popleft()[0], "no connection")
            if self._backlog:
                self._open_one()
            return
        self._all.add(connection)
        self._go_on(connection)


class _Reader:
    """Waits for a topic's next record at one gateway, again and again."""

    def __init__(self, topic: int, name: str, gateway: int, rows: list[tuple[int, int, int, int, float]]) -> None:
        self._topic = topic
        self._path = f"/v1/topics/{name}/partitions/0/records"
        self._gateway = gateway
        self._rows = rows
        self._offset = -1
        self.refused_count = 0

    async def open(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        self.connection = (await loop.create_connection(lambda: _Connection(self), "127.0.0.1", port))[1]
        self._ask(self.connection, "latest", 0)

    def answered(self, connection: _Connection, status: int, body: bytes) -> None:
        if status != 200:
            self.refused_count += 1
            asyncio.get_running_loop().call_later(0.5, self._ask, connection, max(0, self._offset), READER_WAIT_MS)
            return
        end = integer_member(body[-200:], _NEXT_OFFSET)
        if self._offset >= 0 and end > self._offset:
            self._rows.append((self._topic, self._gateway, self._offset, end, time.monotonic()))
        self._offset = end
        self._ask(connection, end, READER_WAIT_MS)

    def lost(self, connection: _Connection) -> None:
        del connection
        self.refused_count += 1

    def _ask(self, connection: _Connection, offset: int | str, wait_ms: int) -> None:
        connection.send(0, request("GET", f"{self._path}?offset={offset}&max_wait_ms={wait_ms}"))


def integer_member(body: bytes, name: bytes) -> int:
    """Return the first non-negative integer behind ``"name":``; -1 without one."""
    start = body.find(name)
    if start < 0:
        return -1
    start += len(name)
    end = start
    while end < len(body) and 48 <= body[end] <= 57:
        end += 1
    return int(body[start:end] or -1)


def text_member(body: bytes, name: bytes) -> str:
    """Return the text behind ``"name":"`` to the next quotation mark; empty without one."""
    _, _, rest = body.partition(name)
    return rest.partition(b'"')[0].decode(errors="replace")


async def drive(plan: Plan, starts_at: float) -> dict[str, Any]:
    """Run the load in this process from a monotonic time on; return the arguments of ``Answers``, and the rows of ``Wakes``."""
    requests = [
        json_requests(
            stream.records,
            stream.value_bytes,
            variants=1,
            topics=plan.topics[stream.first_topic : stream.first_topic + stream.topics],
        )
        for stream in plan.streams
    ]
    receivers = plan.receivers or tuple(range(len(plan.ports)))
    sent = _Sent()
    pools = [_Pool(port, sent, plan.connections_max) for port in plan.ports]
    rows: list[tuple[int, int, int, int, float]] = []
    readers = [_Reader(topic, plan.topics[topic], gateway, rows) for topic, gateway in plan.readers]
    for reader, (_, gateway) in zip(readers, plan.readers, strict=True):
        await reader.open(plan.ports[gateway])
    cpu_seconds = time.process_time()
    for place, due in enumerate(due_times(plan.streams, plan.seconds)):
        at = starts_at + due.seconds
        # A millisecond is the event loop's own grain. A generator that is late must take answers all the same.
        if (left := at - time.monotonic()) > 0.0005 or place % LATE_REQUESTS == 0:
            await asyncio.sleep(max(0, left))
        stream = plan.streams[due.stream]
        gateway = receivers[(due.topic + due.number) % len(receivers)]
        number = sent.add(at, due.topic, gateway, stream.records * stream.value_bytes)
        pools[gateway].ask(number, requests[due.stream][due.topic - stream.first_topic])
    await asyncio.sleep(max(0, starts_at + plan.seconds - time.monotonic()))
    cpu_seconds = time.process_time() - cpu_seconds
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while sent.open_count and time.monotonic() < deadline:  # noqa: ASYNC110 - an event for each answer costs more
        await asyncio.sleep(0.05)
    await asyncio.sleep(READER_SECONDS if readers else 0)
    found = {name: np.array(getattr(sent, name)) for name in _COLUMNS}  # before connections are closed
    wakes = np.array(rows, np.float64).reshape(-1, 5)
    for pool in pools:
        pool.close()
    for reader in readers:
        reader.connection.close()
    return {
        "answers": found
        | {
            "codes": tuple(sent.codes),
            "cpu_seconds": cpu_seconds,
            "connections": sum(pool.count_most for pool in pools),
        },
        "wakes": wakes,
        "refused_readers": sum(reader.refused_count for reader in readers),
    }


_COLUMNS: Final = ("due", "done", "code", "topic", "gateway", "offset", "record_bytes")


async def _driven(_channel: Any, plan: Plan, starts_at: float) -> dict[str, Any]:
    gc.disable()
    return await drive(plan, starts_at)


class Load:
    """A load that was started; it ends by itself."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.starts_at = time.monotonic() + START_SECONDS + len(plan.readers) / READERS_PER_SECOND
        """When the first request is due, in monotonic seconds."""
        self._running = Running(_driven, plan, starts_at=self.starts_at)

    @property
    def ends_at(self) -> float:
        """The monotonic second at which the last request is due."""
        return self.starts_at + self.plan.seconds

    def result(self) -> tuple[Answers, Wakes]:
        """Wait for the end. Raises ``EOFError`` when the process failed."""
        found = self._running.result()
        topic, gateway, start, end = found["wakes"][:, :4].astype(np.int64).T
        at, refused = found["wakes"][:, 4], found["refused_readers"]
        wakes = Wakes(topic=topic, gateway=gateway, start=start, end=end, at=at, refused_count=refused)
        return Answers(**found["answers"]), wakes
