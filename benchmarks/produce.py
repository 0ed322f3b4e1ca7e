"""Produce over HTTP: records/s, MB/s and CPU per record by body, values, size and connections, beside the bare server stack.

Values of each of ``CONTENTS`` are sent where they make most of the work. ``--beside DIRECTORY`` measures another tree of the
source in the same run, turn by turn, and prints the ratio of the two instead of the floor.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bodies import CONTENTS, arrow_requests, json_requests
from benchmarks.load import run_load
from benchmarks.processes import Server, call, floor_server, gateway
from benchmarks.report import Table

PARTITIONS = 8
CONNECTIONS = (1, 16, 64)
BESIDE_CONNECTIONS = (16, 64)
"""One connection mostly waits for ``flush.ms``: that tells two sources apart badly."""
ROUNDS = 4
THIS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of request."""

    name: str
    records: int
    value_bytes: int
    arrow: bool = False
    content: str = "log lines"
    connections: tuple[int, ...] = CONNECTIONS

    @property
    def label(self) -> str:
        """What ``body`` is looked for in."""
        return f"{self.name}, {self.content}, {self.value_bytes} B"

    def requests(self) -> list[bytes]:
        """The prepared bytes of its requests."""
        make = arrow_requests if self.arrow else json_requests
        return make(self.records, self.value_bytes, content=self.content)


SHAPES = [
    *(Shape(f"JSON x {count:,}", count, size) for size in (100, 1024) for count in (1, 100, 1000)),
    *(Shape("Arrow x 10,000", 10_000, size, arrow=True) for size in (100, 1024)),
    *(
        Shape(f"{'Arrow' if arrow else 'JSON'} x {count:,}", count, size, arrow, content, CONNECTIONS[-1:])
        for arrow, count in ((False, 1000), (True, 10_000))
        for size in (100, 1024)
        for content in CONTENTS
        if content != "log lines"
    ),
]

Done = tuple[float, float, float, int]
"""Records/s, bytes of values/s, CPU seconds a record, answers other than 200."""


def make_topic(port: int, name: str = "bench", **config: object) -> None:
    """Create a topic with default settings except ``config``."""
    call(port, "POST", "/v1/topics", {"name": name, "partition_count": PARTITIONS, "config": config})


def measure(
    uri: str,
    environment: Mapping[str, str],
    stores: Sequence[Server],
    seconds: float,
    store: str,
    beside: Path | None = None,
    body: str = "",
) -> Iterator[Table]:
    """One table for one store; ``stores`` are processes whose CPU counts too (a MinIO).

    ``seconds``: of each load. ``beside``: another tree of the source. ``body``: only bodies with this in their label.
    """
    shapes = [shape for shape in SHAPES if body.lower() in shape.label.lower()]
    if beside is not None:
        yield from _in_turns(uri, environment, stores, seconds, store, beside, shapes)
        return
    table = Table(
        f"Produce, {store}, {PARTITIONS} partitions, default settings",
        [
            "body",
            "values",
            "value",
            "connections",
            "records/s",
            "MB/s",
            "CPU us/record",
            "floor records/s",
            "floor CPU us/record",
            "other answers",
        ],
        notes=["Values: random bytes (as JSON in base64), log lines, or one line that repeats."],
    )
    with gateway(uri, dict(environment)) as server, floor_server() as floor:
        make_topic(server.port)
        for shape in shapes:
            requests = shape.requests()
            for connections in shape.connections:
                bare = _load(floor, [], shape, requests, connections, seconds / 2)
                done = _load(server, stores, shape, requests, connections, seconds)
                table.add(*_first_cells(shape, connections), *_cells(done), f"{bare[0]:,.0f}", _us(bare[2]), done[3])
    yield table


def _in_turns(
    uri: str,
    environment: Mapping[str, str],
    stores: Sequence[Server],
    seconds: float,
    store: str,
    beside: Path,
    shapes: Sequence[Shape],
) -> Iterator[Table]:
    """Large bodies at both sources: medians, and the median of the rounds' ratios."""
    table = Table(
        f"Produce at two sources in turns, {store}, {PARTITIONS} partitions, default settings",
        [
            "body",
            "values",
            "value",
            "connections",
            "source",
            "records/s",
            "MB/s",
            "CPU us/record",
            "least",
            "most",
            "of before",
            "other answers",
        ],
        notes=[f"Medians of {ROUNDS} rounds of {seconds:g} s; of before: of the ratios of each round's CPU."],
    )
    with contextlib.ExitStack() as running:
        servers = {
            name: running.enter_context(
                gateway(f"{uri}/{name.replace(' ', '-')}", dict(environment), directory=directory)
            )
            for name, directory in (("before", beside), ("this tree", THIS))
        }
        for server in servers.values():
            make_topic(server.port)
        for shape in shapes:
            if shape.records < 1000:
                continue
            requests = shape.requests()
            for connections in shape.connections:
                if connections not in BESIDE_CONNECTIONS:
                    continue
                runs: dict[str, list[Done]] = {name: [] for name in servers}
                for number in range(ROUNDS):
                    # Each begins every other round: what one leaves to the store would always meet the other.
                    for name in list(servers)[:: 1 if number % 2 else -1]:
                        runs[name].append(_load(servers[name], stores, shape, requests, connections, seconds))
                for name, found in runs.items():
                    costs = [done[2] for done in found]
                    ratios = [cost / first[2] for cost, first in zip(costs, runs["before"], strict=True)]
                    middle = [statistics.median(values) for values in zip(*found, strict=True)]
                    table.add(
                        *_first_cells(shape, connections),
                        name,
                        *_cells((middle[0], middle[1], middle[2], 0)),
                        _us(min(costs)),
                        _us(max(costs)),
                        f"{statistics.median(ratios):.0%}",
                        sum(done[3] for done in found),
                    )
    yield table


def _load(
    server: Server, stores: Sequence[Server], shape: Shape, requests: list[bytes], connections: int, seconds: float
) -> Done:
    counted = [server, *stores]
    before = sum(each.cpu_seconds() for each in counted)
    done = run_load(server.port, requests, connections=connections, seconds=seconds)
    cpu = sum(each.cpu_seconds() for each in counted) - before
    records = done.answers * shape.records
    rate = records / done.seconds
    others = sum(count for status, count in done.statuses.items() if status != 200)
    return rate, rate * shape.value_bytes, cpu / records if records else float("nan"), others


def _first_cells(shape: Shape, connections: int) -> tuple[object, ...]:
    return shape.name, shape.content, f"{shape.value_bytes} B", connections


def _cells(done: Done) -> tuple[str, ...]:
    return f"{done[0]:,.0f}", f"{done[1] / 1e6:,.1f}", _us(done[2])


def _us(cost_s: float) -> str:
    return f"{cost_s * 1e6:,.2f}"
