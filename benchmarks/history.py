"""Readers of history beside small traffic: what they get, and what the others feel.

Four readers read old records of 1 KiB in a loop, each a partition of its own, as Arrow, 8 MiB a request. Beside them records are
produced, read at the tail, and members of a group heartbeat. Each way is measured with those readers, once without, and once
with them at a gateway of its own: what four readers cost the others by the machine that they share.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import psutil
import pyarrow as pa

from benchmarks import processes
from benchmarks.bodies import CONTENTS, values_of
from benchmarks.group_client import Gateway, Member, Running, percentile_ms
from benchmarks.history_clients import (
    FETCHED_BYTES,
    HEADERS,
    PARTITION_RECORDS,
    READERS,
    VALUE_BYTES,
    Clients,
    Work,
    by_http,
    by_plan,
)
from benchmarks.load import ask_all, request
from benchmarks.processes import Server, call
from benchmarks.report import Table

REQUEST_RECORDS: Final = 4_096
PAUSE_S: Final = 0.02
"""Between two small requests of a kind."""
WARM_S: Final = 3.0
"""Not counted: connections, first commits and reads ahead."""
ALONE: Final = "no readers"
ELSEWHERE: Final = ", elsewhere"
WAYS: Final = (ALONE, "gateway", "lane", f"lane{ELSEWHERE}", "plan", f"plan{ELSEWHERE}")

Costs = tuple[float, float, float]
"""CPU seconds of the gateway, its readers and the store."""


def measure(
    store: str, environment: Mapping[str, str], servers: list[Server], seconds: float, where: str
) -> Iterator[Table]:
    """Each content and way; ``servers``: the store's, whose CPU counts."""
    table = Table(
        f"{READERS} readers of history beside small traffic, 1 KiB values, 8 MiB a request, {where}",
        [
            "values",
            "read by",
            "MiB/s together",
            "CPU s/GiB: gateway (without the others' traffic), its readers, store, clients",
            "p50 / p99 ms: produce",
            "tail",
            "heartbeat",
            "load average",
        ],
    )
    for content in CONTENTS:
        with processes.gateway(store, dict(environment)) as server:
            _fill(server.port, content)
        alone = (0.0, 0.0, 0.0)
        for way in WAYS:
            with _environment(environment):
                spent = _row(table, store, environment, servers, seconds, content, way, alone)
            if way == ALONE:
                alone = spent
    table.notes.append(
        "Accept-Encoding as httpx and browsers send it. gateway: `readers=0`; lane: `readers=1`; plan: Tidelog's consumer in four"
        " processes. Clients of readers yield to all else (SCHED_IDLE). Elsewhere, the floor: the same readers at a second"
        " gateway (nice 10) on the machine, which the others don't use."
        f" Produce: {1 / PAUSE_S:.0f} requests a second with 10 records each, until acknowledged; tail: from sending to"
        " a waiting fetch."
    )
    yield table


def _row(
    table: Table,
    store: str,
    environment: Mapping[str, str],
    servers: list[Server],
    seconds: float,
    content: str,
    way: str,
    alone: Costs,
) -> Costs:
    """``alone``: without readers of history."""
    topic, kind = _topic(content), way.removesuffix(ELSEWHERE)
    settings = ("--readers", "1" if kind == "lane" else "0", "--log-level", "warning")
    with contextlib.ExitStack() as stack:
        old = live = stack.enter_context(
            processes.gateway(store, dict(environment), settings, nice=10 if way != kind else 0)
        )
        if way != kind:
            live = stack.enter_context(processes.gateway(f"{store}/beside", dict(environment), settings))
        if "live" not in str(call(live.port, "GET", "/v1/topics")):
            call(live.port, "POST", "/v1/topics", {"name": "live", "config": {"flush.ms": 5, "commit.mode": "own"}})
        if kind == "lane":
            _wait_for_reader(old, topic)
        clients = None
        if way != ALONE:
            own_store = store if kind == "plan" and store.startswith("file:") else None
            work = Work(old.port, topic, WARM_S + seconds, own_store)
            clients = Clients(by_plan if kind == "plan" else by_http, work)
        beside = Running(_beside, live.port, seconds=seconds)
        beside.mark()
        children = [psutil.Process(each.pid) for each in psutil.Process(old.pid).children()]
        before = old.cpu_seconds(), _cpu(children), sum(each.cpu_seconds() for each in servers)
        read_bytes, client_cpu = 0, 0.0
        if clients is not None:
            clients.begin()
            read_bytes, client_cpu = clients.result()
        result = beside.result()
        after = old.cpu_seconds(), _cpu(children), sum(each.cpu_seconds() for each in servers)
    gibibytes = max(read_bytes, 1) / 2**30
    spent = after[0] - before[0], after[1] - before[1], after[2] - before[2]
    own = spent if way != kind else tuple(cost - base for cost, base in zip(spent, alone, strict=True))
    costs = [*(cost / gibibytes for cost in own), client_cpu / gibibytes]
    table.add(
        content,
        way,
        f"{read_bytes / 2**20 / (WARM_S + seconds):,.0f}",
        ", ".join(f"{cost:.1f}" for cost in costs) if read_bytes else f"({spent[0]:.1f} s in all)",
        *(result[each] for each in ("produce", "tail", "heartbeat")),
        f"{os.getloadavg()[0]:.1f}",
    )
    return spent


def _topic(content: str) -> str:
    return "old-" + content.replace(" ", "-")


def _fill(port: int, content: str) -> None:
    topic = _topic(content)
    config = {"flush.bytes": FETCHED_BYTES, "commit.mode": "own"}
    call(port, "POST", "/v1/topics", {"name": topic, "partition_count": READERS, "config": config})
    for number in range(PARTITION_RECORDS // REQUEST_RECORDS):
        values = pa.table({"value": pa.array(values_of(content, REQUEST_RECORDS, VALUE_BYTES, number), pa.binary())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, values.schema) as writer:
            writer.write_table(values)
        body = sink.getvalue().to_pybytes()
        sent = [
            request(
                "POST", f"/v1/topics/{topic}/partitions/{partition}/records", body, {"Content-Type": HEADERS["Accept"]}
            )
            for partition in range(READERS)
        ]
        assert ask_all(port, sent, 2) == {200: READERS}


def _cpu(seen: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (each.cpu_times() for each in seen))


def _wait_for_reader(server: Server, topic: str) -> None:
    """It is started by a fetch from far behind the tail."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", f"/v1/topics/{topic}/partitions/0/records?offset=0&max_bytes=1000000")
        connection.getresponse().read()
        connection.request("GET", "/metrics")
        if b"\ntidelog_history_readers 1.0" in connection.getresponse().read():
            return
        time.sleep(0.1)
    raise RuntimeError("no reader of history came")


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def _beside(channel: Any, port: int, *, seconds: float) -> dict[str, Any]:
    gateway, tail = Gateway(port, 32), Gateway(port, 1)
    member = Member(gateway, "watchers", "live")
    await member.join()
    while not await member.beat():
        pass
    path = "/v1/topics/live/partitions/0/records"
    first = await gateway.call("look", "GET", f"{path}?offset=latest")
    assert first is not None
    wakes: list[float] = []
    channel.send({})
    began = time.perf_counter()
    until = began + WARM_S + seconds

    async def warm_up() -> None:
        await asyncio.sleep(WARM_S)
        gateway.answers.clear()
        wakes.clear()

    async def follow() -> None:
        offset = first["next_offset"]
        while time.perf_counter() < until:
            found = await tail.call("tail", "GET", f"{path}?offset={offset}&max_wait_ms=1000")
            if found is not None and found["records"]:
                offset = found["next_offset"]
                arrived = time.perf_counter()
                wakes.extend((arrived - float(record["value"])) * 1000 for record in found["records"])

    async def paced(act: Callable[[float], Any]) -> None:
        due = began
        pending: set[asyncio.Task[Any]] = set()
        while due < until:
            await asyncio.sleep(due - time.perf_counter())
            pending.add(asyncio.create_task(act(due)))
            due += PAUSE_S
        await asyncio.gather(*pending)

    async def produce(due: float) -> None:
        body = {"records": [{"value": repr(due)} for _ in range(10)]}
        await gateway.call("produce", "POST", path, body, due=due)

    await asyncio.gather(warm_up(), follow(), paced(produce), paced(lambda due: member.beat(due=due)))
    await member.leave()
    answers = {kind: gateway.answers[kind].latencies_ms for kind in ("produce", "heartbeat")} | {"tail": wakes}
    return {kind: f"{percentile_ms(found, 0.5)} / {percentile_ms(found, 0.99)}" for kind, found in answers.items()}
