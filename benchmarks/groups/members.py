"""Cheap members of consumer groups: JSON over raw asyncio connections, for scenarios.

Latencies are in milliseconds from the time when a request was due. They
include the wait for a connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.load import request
from log_format.layout import CONSUMER_OFFSETS_ROOT, commit_version, table_log_prefix
from log_format.stores import open_store

TIMEOUT_SECONDS = 180
COMMIT_EVERY_SECONDS = 5.0
"""Kafka's ``auto.commit.interval.ms``."""


@dataclass(slots=True)
class Answers:
    """The answers to requests of one kind."""

    latencies_ms: list[float] = field(default_factory=list)
    others: int = 0
    """Answers without success."""


class Gateway:
    """Some connections to one gateway; a request takes a free one."""

    def __init__(self, port: int, connections: int) -> None:
        self._port = port
        self._free: asyncio.LifoQueue[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None] = asyncio.LifoQueue()
        for _ in range(connections):
            self._free.put_nowait(None)
        self.answers: dict[str, Answers] = {}

    async def call(self, kind: str, method: str, path: str, body: Any = None, *, due: float | None = None) -> Any:
        """Ask, and return the answer if successful; None for another one, which is counted."""
        due = time.perf_counter() if due is None else due
        connection = await self._free.get()
        try:
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = connection
            headers = {"Content-Type": "application/json"}
            writer.write(request(method, path, b"" if body is None else json.dumps(body).encode(), headers))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]) if b"content-length:" in head else 0
            data = await reader.readexactly(length)
            if b"connection: close" in head:
                writer.close()
                connection = None
        except BaseException:
            connection = None
            raise
        finally:
            self._free.put_nowait(connection)
        answers = self.answers.setdefault(kind, Answers())
        if int(head[9:12]) >= 300:
            answers.others += 1
            return None
        answers.latencies_ms.append((time.perf_counter() - due) * 1000)
        return json.loads(data) if data else {}

    async def close(self) -> None:
        """Close all connections."""
        while not self._free.empty():
            connection = self._free.get_nowait()
            if connection is not None:
                connection[1].close()


@dataclass(slots=True)
class Member:
    """One member: joins, heartbeats and acknowledges."""

    gateway: Gateway
    group: str
    topic: str
    session_timeout_ms: int = 45_000
    assignor: str = "range"
    member_id: str = ""
    generation: int = 0
    partitions: list[int] = field(default_factory=list)
    interval: float = 3.0

    async def join(self) -> None:
        """Join, until the gateway has taken the member in."""
        body = {"topics": [self.topic], "session_timeout_ms": self.session_timeout_ms, "assignor": self.assignor}
        while True:
            answer = await self.gateway.call("join", "POST", f"/v1/groups/{self.group}/members", body)
            if answer is not None:
                self.member_id = answer["member_id"]
                self._take(answer)
                return
            await asyncio.sleep(0.5)

    async def beat(self, *, due: float | None = None) -> bool:
        """Heartbeat, and return whether the answer brought nothing new."""
        path = f"/v1/groups/{self.group}/members/{self.member_id}/heartbeat"
        answer = await self.gateway.call("heartbeat", "POST", path, {"generation": self.generation}, due=due)
        if answer is None:
            return False
        before = self.generation
        self._take(answer)
        return before == self.generation

    async def commit(self, *, due: float | None = None) -> None:
        """Commit offsets of all its partitions."""
        offsets = [{"topic": self.topic, "partition": number, "offset": 0} for number in self.partitions]
        body = {"offsets": offsets, "member_id": self.member_id, "generation": self.generation}
        await self.gateway.call("commit", "PUT", f"/v1/groups/{self.group}/offsets", body, due=due)

    async def leave(self) -> None:
        """Leave the group."""
        await self.gateway.call("leave", "DELETE", f"/v1/groups/{self.group}/members/{self.member_id}")

    def _take(self, answer: Any) -> None:
        self.generation = answer["generation"]
        self.partitions = [one["partition"] for one in answer["assignment"]]
        self.interval = answer["heartbeat_interval_ms"] / 1000


async def settle(members: Sequence[Member], partition_count: int) -> float:
    """Heartbeat without pause until all have acknowledged one generation and hold all partitions; the seconds that it took."""
    started = time.perf_counter()

    async def one(member: Member) -> None:
        while not await member.beat():
            pass

    while True:
        await asyncio.gather(*(one(member) for member in members))
        held = sum(len(member.partitions) for member in members)
        if len({member.generation for member in members}) == 1 and held == partition_count:
            return time.perf_counter() - started
        if time.perf_counter() - started > TIMEOUT_SECONDS:
            raise RuntimeError(
                f"{len(members)} members did not settle: {held} of {partition_count} partitions are held"
            )


async def steady(members: Sequence[Member], seconds: float, *, commits: bool) -> None:
    """Let each member heartbeat in its interval, and commit every ``COMMIT_EVERY_SECONDS`` if asked; spread evenly."""
    started = time.perf_counter()

    async def repeat(first: float, pause: Callable[[], float], act: Callable[[float], Awaitable[Any]]) -> None:
        due = started + first
        while due < started + seconds:
            await asyncio.sleep(due - time.perf_counter())
            await act(due)
            due += pause()

    work = []
    for index, member in enumerate(members):
        share = index / len(members)
        work.append(repeat(share * member.interval, lambda m=member: m.interval, lambda due, m=member: m.beat(due=due)))
        if commits:
            every = COMMIT_EVERY_SECONDS
            work.append(repeat(share * every, lambda every=every: every, lambda due, m=member: m.commit(due=due)))
    await asyncio.gather(*work)


def counted(answers: dict[str, Answers]) -> dict[str, Any]:
    """Return a scenario's result about its requests: latencies by kind, and the number of failures."""
    others = Counter({kind: found.others for kind, found in answers.items()})
    return {"latencies_ms": {kind: found.latencies_ms for kind, found in answers.items()}, "others": others.total()}


def table_commits(store: str) -> int:
    """Return the number of commits of the table of offsets so far."""
    listed = open_store(store).list(table_log_prefix(CONSUMER_OFFSETS_ROOT))
    return sum(commit_version(info.key) is not None for info in listed)
