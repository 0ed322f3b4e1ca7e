"""Produce over HTTP: records/s, MB/s and CPU per record by body, size and connections, beside the bare server stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.bodies import arrow_requests, json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call
from benchmarks.report import Table

PARTITIONS = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of request."""

    name: str
    records: int
    value_bytes: int
    arrow: bool = False

    def requests(self) -> list[bytes]:
        """The prepared bytes of its requests."""
        make = arrow_requests if self.arrow else json_requests
        return make(self.records, self.value_bytes)


SHAPES = [
    *(Shape(f"JSON x {count}", count, size) for size in (100, 1024) for count in (1, 100, 1000)),
    *(Shape("Arrow x 10,000", 10_000, size, arrow=True) for size in (100, 1024)),
]
CONNECTIONS = (1, 16, 64)


def make_topic(port: int, name: str = "bench", **config: object) -> None:
    """Create a topic with default settings except ``config``."""
    call(port, "POST", "/v1/topics", {"name": name, "partition_count": PARTITIONS, "config": config})


def measure(gateway: Server, stores: list[Server], floor: Server, seconds: float, store: str) -> Iterator[Table]:
    """One table for one store; ``stores`` are processes whose CPU counts too (a MinIO)."""
    table = Table(
        f"Produce, {store}, {PARTITIONS} partitions, default settings",
        [
            "body",
            "value",
            "connections",
            "records/s",
            "MB/s",
            "CPU us/record",
            "floor records/s",
            "floor CPU us/record",
            "other answers",
        ],
    )
    make_topic(gateway.port)
    for shape in SHAPES:
        requests = shape.requests()
        for connections in CONNECTIONS:
            floor_before = floor.cpu_seconds()
            bare = run_load(floor.port, requests, connections=connections, seconds=seconds / 2)
            floor_cpu = floor.cpu_seconds() - floor_before
            before = sum(server.cpu_seconds() for server in [gateway, *stores])
            done = run_load(gateway.port, requests, connections=connections, seconds=seconds)
            cpu = sum(server.cpu_seconds() for server in [gateway, *stores]) - before
            records = done.answers * shape.records
            table.add(
                shape.name,
                f"{shape.value_bytes} B",
                connections,
                f"{records / done.seconds:,.0f}",
                f"{records * shape.value_bytes / done.seconds / 1e6:,.1f}",
                f"{cpu / records * 1e6:,.2f}" if records else "-",
                f"{bare.answers * shape.records / bare.seconds:,.0f}",
                f"{floor_cpu / max(1, bare.answers * shape.records) * 1e6:,.2f}",
                sum(count for status, count in done.statuses.items() if status != 200),
            )
    yield table
