"""Readers of history beside small traffic: what they get, and what the others feel.

Four readers read old records of 1 KiB in a loop, each a partition of its own, as Arrow, 8 MiB a request. Beside them records are
produced, read at the tail, and members of a group heartbeat. Each way is measured with those readers, and once without.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import psutil
import pyarrow as pa

from benchmarks import processes
from benchmarks.bodies import log_lines
from benchmarks.group_client import Gateway, Member, Running
from benchmarks.load import ask_all, request
from benchmarks.processes import Server, call
from benchmarks.report import Table
from tidelog import Consumer, TopicPartition

READERS: Final = 4
VALUE_BYTES: Final = 1024
PARTITION_RECORDS: Final = 49_152
"""48 MiB in each of the readers' partitions: together more than a gateway keeps in memory."""
REQUEST_RECORDS: Final = 4_096
NEAR_TAIL_RECORDS: Final = 16_384
"""What is so near to the end a consumer does not read by plan."""
FETCHED_BYTES: Final = 8 * 1024 * 1024
HEADERS: Final = {
    "Accept": "application/vnd.apache.arrow.stream",
    "Accept-Encoding": "gzip, deflate, br, zstd",
}
"""As httpx and browsers send them."""
PRODUCE_PAUSE_S: Final = 0.05
BEAT_PAUSE_S: Final = 0.05
WAYS: Final = ("no readers", "gateway", "lane", "plan")
CONTENTS: Final = ("random", "log lines", "repeating")


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
            "p99 ms: produce, tail, heartbeat",
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
            if way == WAYS[0]:
                alone = spent
    table.notes.append(
        "Accept-Encoding as httpx and browsers send it. gateway: `readers=0`; lane: `readers=1`; plan: Tidelog's consumer in four"
        " processes. Produce: 20 requests a second with 10 records each, until acknowledged; tail: from sending to"
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
    alone: tuple[float, float, float],
) -> tuple[float, float, float]:
    """The CPU seconds of the gateway, its readers and the store; ``alone``: without readers of history."""
    settings = ("--readers", "1" if way == "lane" else "0", "--log-level", "warning")
    topic = _topic(content)
    with processes.gateway(store, dict(environment), settings) as server:
        if "live" not in str(call(server.port, "GET", "/v1/topics")):
            call(server.port, "POST", "/v1/topics", {"name": "live", "config": {"flush.ms": 5, "commit.mode": "own"}})
        if way == "lane":
            _wait_for_reader(server, topic)
        beside = Running(_beside, server.port, seconds=seconds)
        beside.mark()
        children = [psutil.Process(each.pid) for each in psutil.Process(server.pid).children()]
        before = server.cpu_seconds(), _cpu(children), sum(each.cpu_seconds() for each in servers)
        read_bytes, client_cpu = 0, 0.0
        own_store = store if way == "plan" and store.startswith("file:") else None
        if way != "no readers":
            read = _plan_reader if way == "plan" else _http_reader
            read_bytes, client_cpu = _run_readers(read, server.port, topic, seconds, own_store)
        result = beside.result()
        after = server.cpu_seconds(), _cpu(children), sum(each.cpu_seconds() for each in servers)
    gibibytes = max(read_bytes, 1) / 2**30
    spent = after[0] - before[0], after[1] - before[1], after[2] - before[2]
    costs = [*((cost - base) / gibibytes for cost, base in zip(spent, alone, strict=True)), client_cpu / gibibytes]
    table.add(
        content,
        way,
        f"{read_bytes / 2**20 / seconds:,.0f}",
        ", ".join(f"{cost:.1f}" for cost in costs) if read_bytes else f"({spent[0]:.1f} s in all)",
        ", ".join(f"{result[kind]:.0f}" for kind in ("produce", "tail", "heartbeat")),
        f"{os.getloadavg()[0]:.1f}",
    )
    return spent


def _topic(content: str) -> str:
    return "old-" + content.replace(" ", "-")


def _fill(port: int, content: str) -> None:
    topic = _topic(content)
    config = {"flush.bytes": FETCHED_BYTES, "commit.mode": "own"}
    call(port, "POST", "/v1/topics", {"name": topic, "partition_count": READERS, "config": config})
    made = random.Random(3)
    makers: dict[str, Callable[[int], list[bytes]]] = {
        "random": lambda _: [made.randbytes(VALUE_BYTES) for _ in range(REQUEST_RECORDS)],
        "log lines": lambda seed: [line.encode() for line in log_lines(REQUEST_RECORDS, VALUE_BYTES, seed)],
        "repeating": lambda _: [b"the same line " * 74] * REQUEST_RECORDS,
    }
    for number in range(PARTITION_RECORDS // REQUEST_RECORDS):
        values = pa.table({"value": pa.array(makers[content](number), pa.binary())})
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


Reader = Callable[[int, str, int, float, str | None], int]
"""Of the gateway's port, the topic, the partition, seconds, and the store as this machine reaches it: bytes read."""


def _http_reader(port: int, topic: str, partition: int, seconds: float, _store: str | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    buffer = bytearray(1 << 20)
    read, offset, until = 0, 0, time.monotonic() + seconds
    while time.monotonic() < until:
        path = f"/v1/topics/{topic}/partitions/{partition}/records"
        connection.request(
            "GET", f"{path}?offset={offset}&max_records=100000&max_bytes={FETCHED_BYTES}", headers=HEADERS
        )
        answer = connection.getresponse()
        while answer.readinto(buffer):
            pass
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}")
        following = int(cast("str", answer.getheader("tidelog-next-offset")))
        read += (following - offset) * VALUE_BYTES
        offset = 0 if following == PARTITION_RECORDS else following
    return read


def _plan_reader(port: int, topic: str, partition: int, seconds: float, store: str | None) -> int:
    read, until = 0, time.monotonic() + seconds
    place = TopicPartition(topic, partition)
    with Consumer(bootstrap_servers=f"http://127.0.0.1:{port}", store=store) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        while time.monotonic() < until:
            read += consumer.poll_arrow(1_000, FETCHED_BYTES).num_rows * VALUE_BYTES
            if consumer.position(place) >= PARTITION_RECORDS - NEAR_TAIL_RECORDS:
                consumer.seek(place, 0)
    return read


def _reader_process(channel: Any, read: Reader, arguments: tuple[Any, ...], partitions: range) -> None:
    found = [0] * len(partitions)

    def one(index: int, partition: int) -> None:
        port, topic, seconds, store = arguments
        found[index] = read(port, topic, partition, seconds, store)

    before = time.process_time()
    threads = [threading.Thread(target=one, args=each) for each in enumerate(partitions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    channel.send((sum(found), time.process_time() - before))


def _run_readers(read: Reader, port: int, topic: str, seconds: float, store: str | None) -> tuple[int, float]:
    """Bytes read and CPU seconds, of one process with four threads, or of four processes."""
    context = multiprocessing.get_context("spawn")
    shares = [range(READERS)] if read is _http_reader else [range(number, number + 1) for number in range(READERS)]
    channels = []
    for share in shares:
        ours, theirs = context.Pipe(duplex=False)
        context.Process(target=_reader_process, args=(theirs, read, (port, topic, seconds, store), share)).start()
        theirs.close()
        channels.append(ours)
    results = [channel.recv() for channel in channels]
    return sum(size for size, _ in results), sum(cpu for _, cpu in results)


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
    gateway.answers.clear()
    channel.send({})
    began = time.perf_counter()

    async def follow() -> None:
        offset = first["next_offset"]
        while time.perf_counter() < began + seconds:
            found = await tail.call("tail", "GET", f"{path}?offset={offset}&max_wait_ms=1000")
            if found is not None and found["records"]:
                offset = found["next_offset"]
                arrived = time.perf_counter()
                wakes.extend((arrived - float(record["value"])) * 1000 for record in found["records"])

    async def paced(pause: float, act: Callable[[float], Any]) -> None:
        due = began
        pending: set[asyncio.Task[Any]] = set()
        while due < began + seconds:
            await asyncio.sleep(due - time.perf_counter())
            pending.add(asyncio.create_task(act(due)))
            due += pause
        await asyncio.gather(*pending)

    async def produce(due: float) -> None:
        body = {"records": [{"value": repr(due)} for _ in range(10)]}
        await gateway.call("produce", "POST", path, body, due=due)

    await asyncio.gather(
        follow(), paced(PRODUCE_PAUSE_S, produce), paced(BEAT_PAUSE_S, lambda due: member.beat(due=due))
    )
    await member.leave()
    return {
        "produce": _p99(gateway.answers["produce"].latencies_ms),
        "tail": _p99(wakes),
        "heartbeat": _p99(gateway.answers["heartbeat"].latencies_ms),
    }


def _p99(latencies_ms: list[float]) -> float:
    ordered = sorted(latencies_ms)
    return ordered[int(len(ordered) * 0.99)] if ordered else float("nan")
