"""Cheap members of consumer groups, for scenarios."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.json_calls import Gateway
from log_format.layout import CONSUMER_OFFSETS_ROOT, commit_version, table_log_prefix
from log_format.stores import open_store

TIMEOUT_SECONDS = 180
COMMIT_EVERY_SECONDS = 5.0
"""Kafka's ``auto.commit.interval.ms``."""


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


def table_commits(store: str) -> int:
    """Return the number of commits of the table of offsets so far."""
    listed = open_store(store).list(table_log_prefix(CONSUMER_OFFSETS_ROOT))
    return sum(commit_version(info.key) is not None for info in listed)
