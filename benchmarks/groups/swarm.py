"""Ten thousand groups of one member on one gateway, each with a heartbeat and a commit of its offsets every five seconds.

The clients are one process: prepared bytes over a few hundred connections, and one sweep that sends what is due. A request's
latency counts from when it was due. The same requests to a bare server are the floor of their CPU.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.groups.members import COMMIT_EVERY_SECONDS, table_commits
from benchmarks.harness.load import parse_head, request
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, bare_server, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.scenario import Running
from benchmarks.harness.stores import directory

GROUPS = 10_000
PARTITIONS = 8
EVERY_SECONDS = COMMIT_EVERY_SECONDS
"""Between a group's heartbeats, and between its commits."""
CONNECTIONS = 900
"""A gateway takes a thousand unless it is told otherwise. A commit waits for its turn, and holds its connection meanwhile."""
SWEEP_SECONDS = 0.005
SESSION_MS = 45_000
SETTINGS = ("--groups-bytes-max", str(128 * 1024 * 1024), "--log-level", "warning")
"""Room for ten thousand groups, which take some 90 MB; and no line for each request."""
_JSON = {"Content-Type": "application/json"}
_COLUMNS = (
    "server", "seconds", "requests/s", "heartbeat p50 ms", "p99 ms", "commit p50 ms", "p99 ms", "CPU us/request",
    "server CPU", "clients' CPU", "other answers", "table commits", "RSS peak MiB",
)  # fmt: skip


def measure(options: Options) -> Iterator[Table]:
    """Yield one table. The load lasts at least four of a group's intervals."""
    seconds, groups = max(options.seconds, 4 * EVERY_SECONDS), GROUPS
    table = Table(
        f"{groups:,} groups of one member on one gateway, {PARTITIONS} partitions each, heartbeat and commit every 5 s",
        [*_COLUMNS],
        notes=["Bare: uvicorn alone answers the same requests with the same number of bytes."],
    )
    with bare_server() as bare:
        _row(table, "bare", bare, None, groups, seconds)
    with directory() as store, gateway(store, settings=SETTINGS) as server:
        make_topic(server.port, "swarm", PARTITIONS)
        _row(table, "gateway", server, store, groups, seconds)
    yield table


def _row(table: Table, name: str, server: Server, store: str | None, groups: int, seconds: float) -> None:
    running = Running(_swarm, server.port, groups=groups, seconds=seconds, joins=store is not None)
    running.mark()
    cpu, commits = server.cpu_seconds(), 0 if store is None else table_commits(store)
    found = running.mark()
    used = server.cpu_seconds() - cpu
    beats, committed = found["latencies_ms"]["POST"], found["latencies_ms"]["PUT"]
    answers = len(beats) + len(committed)
    running.result()
    table.add(
        name,
        f"{found['seconds']:.1f}",
        f"{answers / found['seconds']:,.0f}",
        percentile_text(beats, 0.5),
        percentile_text(beats, 0.99),
        percentile_text(committed, 0.5),
        percentile_text(committed, 0.99),
        f"{used / max(1, answers) * 1e6:,.0f}",
        f"{used / found['seconds']:.0%}",
        f"{found['cpu_seconds'] / found['seconds']:.0%}",
        found["others"],
        0 if store is None else table_commits(store) - commits,
        f"{server.rss_peak_bytes() / 2**20:,.0f}",
    )


class _Line(asyncio.Protocol):
    """One connection: a request at a time, the others in their order. ``answered``: due, method, status, body."""

    def __init__(self, answered: Callable[[float, str, int, bytes], None]) -> None:
        self._answered = answered
        self._waiting: deque[tuple[float, str, bytes]] = deque()
        self._under_way: tuple[float, str, bytes] | None = None
        self._buffer = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, due: float, method: str, data: bytes) -> None:
        if self._under_way is None:
            self._under_way = (due, method, data)
            self._transport.write(data)
        else:
            self._waiting.append((due, method, data))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = parse_head(self._buffer)
        if head is None or len(self._buffer) < head[2]:
            return
        assert self._under_way is not None
        due, method, _ = self._under_way
        body = bytes(self._buffer[head[1] :])
        self._buffer.clear()
        self._under_way = self._waiting.popleft() if self._waiting else None
        if self._under_way is not None:
            self._transport.write(self._under_way[2])
        self._answered(due, method, head[0], body)


async def _swarm(channel: Any, port: int, groups: int, seconds: float, joins: bool) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    members = await _joined(port, groups) if joins else [("member", 1)] * groups
    latencies: dict[str, list[float]] = {"POST": [], "PUT": []}
    others = 0
    asked = 0

    def answered(due: float, method: str, status: int, _body: bytes) -> None:
        nonlocal others
        others += status != 200
        latencies[method].append((time.perf_counter() - due) * 1000)

    lines = [(await loop.create_connection(lambda: _Line(answered), "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    schedule = sorted(_schedule(members), key=lambda entry: entry[0])
    channel.send({})
    cpu, started = time.process_time(), time.perf_counter()
    for round_ in range(int(seconds / EVERY_SECONDS)):
        for share, number, method, data in schedule:
            due = started + (round_ + share) * EVERY_SECONDS
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(max(left, SWEEP_SECONDS))
            lines[number % CONNECTIONS].ask(due, method, data)
            asked += 1
    while sum(map(len, latencies.values())) < asked and time.perf_counter() - started < seconds * 4:  # noqa: ASYNC110 - polled
        await asyncio.sleep(SWEEP_SECONDS)
    took = time.perf_counter() - started
    others += asked - sum(map(len, latencies.values()))
    found = {"latencies_ms": latencies, "others": others, "seconds": took}
    channel.send({**found, "cpu_seconds": time.process_time() - cpu})
    return {}


def _schedule(members: list[tuple[str, int]]) -> Iterator[tuple[float, int, str, bytes]]:
    """Yield each request of an interval: when it is due, the number of its group, its method and its bytes."""
    offsets = [{"topic": "swarm", "partition": partition, "offset": 0} for partition in range(PARTITIONS)]
    for number, (member, generation) in enumerate(members):
        group = f"/v1/groups/group-{number}"
        beat = json.dumps({"generation": generation}).encode()
        commit = json.dumps({"offsets": offsets, "member_id": member, "generation": generation}).encode()
        share = number / len(members)
        yield share, number, "POST", request("POST", f"{group}/members/{member}/heartbeat", beat, _JSON)
        yield (share + 0.5) % 1, number, "PUT", request("PUT", f"{group}/offsets", commit, _JSON)


async def _joined(port: int, groups: int) -> list[tuple[str, int]]:
    """Join each group, and return its member and generation."""
    loop = asyncio.get_running_loop()
    found: dict[int, tuple[str, int]] = {}
    done = loop.create_future()
    body = json.dumps({"topics": ["swarm"], "session_timeout_ms": SESSION_MS}).encode()

    def answered(number: float, _method: str, status: int, data: bytes) -> None:
        assert status == 201, data
        told = json.loads(data)
        found[int(number)] = (told["member_id"], told["generation"])
        if len(found) == groups:
            done.set_result(None)

    lines = [(await loop.create_connection(lambda: _Line(answered), "127.0.0.1", port))[1] for _ in range(CONNECTIONS)]
    for number in range(groups):
        data = request("POST", f"/v1/groups/group-{number}/members", body, _JSON)
        lines[number % CONNECTIONS].ask(number, "POST", data)
    await done
    for line in lines:
        line._transport.close()
    return [found[number] for number in range(groups)]
