"""Consumer groups: rebalancing, commits, a thousand members in one group.

Beside each figure is its floor of the same run: the cost of its commits as raw PUTs to the same store. The table of offsets
takes a few commits a second at most, and all waiting decisions share the next one. That is the floor for many groups.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.groups.members import Member, settle, steady, table_commits
from benchmarks.harness.bodies import json_requests
from benchmarks.harness.json_calls import Gateway, counted
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, gateway, make_topic
from benchmarks.harness.raw_puts import two_puts_ms
from benchmarks.harness.report import Table
from benchmarks.harness.scenario import Running
from benchmarks.harness.stores import directory
from log_format.stores import open_store

REBALANCES = 5
REBALANCE_PARTITIONS = 12
POLL_WAIT_MS = 2_000
MEMBERS = 1_000
MEMBER_PARTITIONS = 1_000
GROUP_PARTITIONS = 8
CONNECTIONS = 400


def measure(options: Options) -> Iterator[Table]:
    """Yield three tables, each of a gateway on a store of its own. Ten thousand groups are ``swarm``."""
    for one in (_rebalances, _commits, _many_members):
        with directory() as store, gateway(store) as server:
            yield one(server, store, options.seconds)


# From two members to three


def _rebalances(server: Server, store: str, _seconds: float) -> Table:
    table = Table(
        f"Rebalance from 2 to 3 members over {REBALANCE_PARTITIONS} partitions under load, polls waiting",
        ["assignor", "join to all settled p50 ms", "worst ms", "partitions moved", "floor ms (commits as raw PUTs)"],
        notes=["Two commits of the table: the new generation, and the partitions that the others have released."],
    )
    make_topic(server.port, "rebalanced", REBALANCE_PARTITIONS)
    floor_ms = 2 * statistics.median(two_puts_ms(open_store(store)))
    load = json_requests(10, 100, topics=["rebalanced"])
    for assignor in ("range", "sticky"):
        running = Running(_rebalance, server.port, assignor=assignor)
        run_load(server.port, load, connections=16, seconds=REBALANCES, pause_s=0.05)
        found = running.result()
        took = found["took_ms"]
        table.add(
            assignor,
            f"{statistics.median(took):.0f}",
            f"{max(took):.0f}",
            f"{statistics.mean(found['moved']):.0f}",
            f"{floor_ms:.1f}",
        )
    return table


async def _rebalance(_channel: Any, port: int, assignor: str) -> dict[str, Any]:
    took, moved = [], []
    for number in range(REBALANCES):
        connections = Gateway(port, 3)
        pollers = [_Poller(connections, f"rebalanced-{assignor}-{number}", assignor) for _ in range(3)]
        tasks = [asyncio.create_task(poller.run()) for poller in pollers[:2]]
        await _settled(pollers[:2])
        before = {key: place for place, poller in enumerate(pollers) for key in poller.partitions}
        started = time.perf_counter()
        tasks.append(asyncio.create_task(pollers[2].run()))
        await _settled(pollers)
        took.append((time.perf_counter() - started) * 1000)
        after = {key: place for place, poller in enumerate(pollers) for key in poller.partitions}
        moved.append(sum(before[key] != place for key, place in after.items()))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await connections.close()
    return {"took_ms": took, "moved": moved}


class _Poller:
    """A member that polls without pause, and commits the records of a poll with the next one."""

    def __init__(self, connections: Gateway, group: str, assignor: str) -> None:
        self._gateway = connections
        self._path = f"/v1/groups/{group}/poll"
        self._assignor = assignor
        self.generation = 0
        self.acknowledged = 0
        self.partitions: set[int] = set()

    async def run(self) -> None:
        """Poll for ever."""
        wish: dict[str, Any] = {"topics": ["rebalanced"], "assignor": self._assignor}
        while True:
            body = {**wish, "max_wait_ms": POLL_WAIT_MS, "max_records": 10_000}
            answer = await self._gateway.call("poll", "POST", self._path, body)
            assert answer is not None, "a poll failed"
            self.acknowledged = wish.get("generation", answer["generation"])
            self.generation = answer["generation"]
            self.partitions = {part["partition"] for part in answer["partitions"]}
            commit = [
                {"topic": part["topic"], "partition": part["partition"], "offset": part["next_offset"]}
                for part in answer["partitions"]
                if part.get("records")
            ]
            wish = {"member_id": answer["member_id"], "generation": self.generation, "commit": commit}


def _is_settled(pollers: list[_Poller]) -> bool:
    held = [number for poller in pollers for number in poller.partitions]
    generations = {number for poller in pollers for number in (poller.generation, poller.acknowledged)}
    return len(held) == REBALANCE_PARTITIONS and len(generations) == 1


async def _settled(pollers: list[_Poller]) -> None:
    while not _is_settled(pollers):  # noqa: ASYNC110 - an event for each answer would say no more
        await asyncio.sleep(0.002)


# Commits


def _commits(server: Server, store: str, seconds: float) -> Table:
    table = Table(
        "Offset commits, one after another in each group",
        [
            "groups",
            "offsets each",
            "commits/s",
            "p50 ms",
            "p99 ms",
            "table commits/s",
            "CPU us/commit",
            "floor p50 ms",
            "p99",
        ],
        notes=["Floor: two raw PUTs of the same sizes to the same store."],
    )
    make_topic(server.port, "committed", GROUP_PARTITIONS)
    for groups in (1, 10, 100, 1_000):
        puts = two_puts_ms(open_store(store))
        names = [f"{groups}-{number}" for number in range(groups)]
        running = Running(_commit, server.port, names=names, seconds=max(seconds, 3.0))
        running.mark()
        before, commits, started = server.cpu_seconds(), table_commits(store), time.perf_counter()
        latencies = running.result()["latencies_ms"]["commit"]
        took = time.perf_counter() - started
        puts += two_puts_ms(open_store(store))
        table.add(
            f"{groups:,}",
            GROUP_PARTITIONS,
            f"{len(latencies) / took:,.0f}",
            percentile_text(latencies, 0.5),
            percentile_text(latencies, 0.99),
            f"{(table_commits(store) - commits) / took:.1f}",
            f"{(server.cpu_seconds() - before) / max(1, len(latencies)) * 1e6:,.0f}",
            percentile_text(puts, 0.5),
            percentile_text(puts, 0.99),
        )
    return table


async def _commit(channel: Any, port: int, names: list[str], seconds: float) -> dict[str, Any]:
    connections = Gateway(port, min(CONNECTIONS, len(names)))
    members = [Member(connections, name, "committed") for name in names]
    await asyncio.gather(*(member.join() for member in members))
    await asyncio.gather(*(settle([member], GROUP_PARTITIONS) for member in members))
    channel.send({})
    deadline = time.perf_counter() + seconds

    async def drive(member: Member) -> None:
        while time.perf_counter() < deadline:
            await member.commit()

    await asyncio.gather(*(drive(member) for member in members))
    await connections.close()
    return counted(connections.answers)


# Many members

_STEADY = [
    "seconds",
    "requests/s",
    "heartbeat p50 ms",
    "p99 ms",
    "commit p50 ms",
    "p99 ms",
    "gateway CPU",
    "other answers",
]


def _many_members(server: Server, store: str, seconds: float) -> Table:
    table = Table(
        f"{MEMBERS:,} members in one group, {MEMBER_PARTITIONS:,} partitions",
        ["what", *_STEADY, "table commits", "gateway RSS peak MiB"],
        notes=["A second of the steady phase has as many heartbeats as the gateway's interval asks for."],
    )
    make_topic(server.port, "crowd", MEMBER_PARTITIONS)
    running = Running(_crowd, server.port, seconds=max(seconds * 3, 10.0))
    _phases(table, running, server, store)
    return table


async def _crowd(channel: Any, port: int, seconds: float) -> dict[str, Any]:
    connections = Gateway(port, CONNECTIONS)
    members = [Member(connections, "crowd", "crowd") for _ in range(MEMBERS)]

    async def storm() -> None:
        await asyncio.gather(*(member.join() for member in members))
        await settle(members, MEMBER_PARTITIONS)

    async def leave() -> None:
        await members.pop(MEMBERS // 2).leave()
        await settle(members, MEMBER_PARTITIONS)

    await _phase(channel, connections, "all join, until settled", storm())
    await _phase(channel, connections, "steady", steady(members, seconds, commits=True))
    await _phase(channel, connections, "one leaves, until settled", leave())
    return {}


async def _phase(channel: Any, connections: Gateway, what: str, work: Any) -> None:
    connections.answers.clear()
    channel.send({"begins": what})
    await work
    channel.send(counted(connections.answers))


def _phases(table: Table, running: Running, server: Server, store: str) -> None:
    """Add a row for each phase that the client announces."""
    while "begins" in (mark := running.mark()):
        cpu, commits, started = server.cpu_seconds(), table_commits(store), time.perf_counter()
        found = running.mark()
        took = time.perf_counter() - started
        latencies = found["latencies_ms"]
        beats, committed = latencies.get("heartbeat", []), latencies.get("commit", [])
        table.add(
            mark["begins"],
            f"{took:.1f}",
            f"{sum(map(len, latencies.values())) / took:,.0f}",
            percentile_text(beats, 0.5),
            percentile_text(beats, 0.99),
            percentile_text(committed, 0.5),
            percentile_text(committed, 0.99),
            f"{(server.cpu_seconds() - cpu) / took:.0%}",
            found["others"],
            table_commits(store) - commits,
            f"{server.rss_peak_bytes() / 2**20:,.0f}",
        )
    running.join()
