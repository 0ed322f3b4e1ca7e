"""A bounded, cheap HTTP/1.1 load generator: prepared request bytes over raw asyncio connections.

It runs in a process of its own (``run_load``), so that its CPU is not counted as the gateway's. Each connection sends a request,
waits for the whole answer, and sends the next, until the time is over.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import uvloop

from benchmarks.harness.percentiles import percentile
from benchmarks.harness.scenario import Running

TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A load's result: answers by status, its seconds, latency of each answer in ms, CPU seconds of the generator."""

    statuses: dict[int, int]
    seconds: float
    latencies_ms: list[float]
    cpu_seconds: float

    @property
    def answers(self) -> int:
        """The number of answers with status 200."""
        return self.statuses.get(200, 0)

    def percentile_ms(self, fraction: float) -> float:
        """Return the latency that this fraction of the answers did not exceed; NaN without answers."""
        return percentile(self.latencies_ms, fraction)

    @property
    def others(self) -> int:
        """The number of answers without status 200."""
        return sum(self.statuses.values()) - self.answers


def request(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """Return the bytes of one request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def parse_head(buffer: bytearray) -> tuple[int, int, int] | None:
    """Return the status of an answer with Content-Length, and where its body begins and ends; None if the head is incomplete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(buffer[:end]).lower()
    start = head.index(b"content-length:") + 15
    length = int(head[start : (head + b"\r\n").index(b"\r\n", start)])
    return int(head[9:12]), end + 4, end + 4 + length


class Connection(asyncio.Protocol):
    """Sends one request at a time; ``ask`` gives the status and the body of its answer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[int, int, int] | None = None
        self._waiting: asyncio.Future[tuple[int, memoryview]] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_open = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, data: bytes) -> asyncio.Future[tuple[int, memoryview]]:
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._head = self._head or parse_head(self._buffer)
        if self._head is None or len(self._buffer) < self._head[2] or self._waiting is None:
            return
        status, begin, end = self._head
        waiting, answer = self._waiting, memoryview(self._buffer)[begin:end]
        self._buffer, self._head, self._waiting = bytearray(), None, None
        waiting.set_result((status, answer))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionError("the gateway closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _load(
    _channel: Any, ports: Sequence[int], requests: Sequence[bytes], connections: int, seconds: float, pause_s: float
) -> dict[str, Any]:
    loop = asyncio.get_running_loop()

    async def connect(number: int) -> Connection:
        return (await loop.create_connection(Connection, "127.0.0.1", ports[number % len(ports)]))[1]

    opened = [await connect(number) for number in range(connections)]
    statuses: dict[int, int] = {}
    latencies: list[float] = []
    started = time.perf_counter()
    deadline = started + seconds

    async def drive(connection: Connection, first: int) -> None:
        index = first
        await asyncio.sleep(pause_s * first / connections)  # else each pause would end with a burst
        while time.perf_counter() < deadline:
            if not connection.is_open:  # an overloaded gateway answers and closes, without reading the body
                connection = await connect(first)
            sent = time.perf_counter()
            try:
                status, _ = await asyncio.wait_for(connection.ask(requests[index % len(requests)]), TIMEOUT_SECONDS)
            except ConnectionError:
                statuses[0] = statuses.get(0, 0) + 1
                continue
            latencies.append((time.perf_counter() - sent) * 1000)
            statuses[status] = statuses.get(status, 0) + 1
            index += connections
            if pause_s:
                await asyncio.sleep(pause_s)

    await asyncio.gather(*(drive(connection, index) for index, connection in enumerate(opened)))
    elapsed = time.perf_counter() - started
    for connection in opened:
        connection.close()
    return {"statuses": statuses, "seconds": elapsed, "latencies_ms": latencies}


async def _ask_all(port: int, requests: Sequence[bytes], connections: int) -> Counter[int]:
    loop = asyncio.get_running_loop()
    left = iter(requests)
    statuses: Counter[int] = Counter()

    async def drive() -> None:
        connection = (await loop.create_connection(Connection, "127.0.0.1", port))[1]
        for data in left:
            statuses[(await asyncio.wait_for(connection.ask(data), TIMEOUT_SECONDS))[0]] += 1
        connection.close()

    await asyncio.gather(*(drive() for _ in range(connections)))
    return statuses


def ask_all(port: int, requests: Sequence[bytes], connections: int) -> Counter[int]:
    """Send each request once, from this process, over so many connections, and return the number of answers by status."""
    return uvloop.run(_ask_all(port, requests, connections))


def run_load(
    ports: int | Sequence[int],
    requests: Sequence[bytes],
    *,
    connections: int,
    seconds: float,
    pause_s: float = 0.0,
) -> LoadResult:
    """Send the requests in turn, from a process of its own.

    Connection ``i`` goes to ``ports[i modulo their number]`` and begins with ``requests[i modulo their number]``.

    Args:
        ports: of one server, or of several.
        requests: as ``request`` makes them.
        connections: their number.
        seconds: how long requests are sent.
        pause_s: the seconds between an answer and the next request of its connection.
    """
    ports = [ports] if isinstance(ports, int) else list(ports)
    arguments = {"requests": requests, "connections": connections, "seconds": seconds, "pause_s": pause_s}
    found = Running(_load, ports, **arguments).result()
    return LoadResult(
        statuses=found["statuses"],
        seconds=found["seconds"],
        latencies_ms=found["latencies_ms"],
        cpu_seconds=found["client_cpu_seconds"],
    )
