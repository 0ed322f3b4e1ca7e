"""Produce over HTTP: records/s, MB/s and CPU per record by body, values, size and connections, beside the bare server stack.

Values of each of ``CONTENTS`` are sent where they make most of the work. ``--beside DIRECTORY`` measures another tree of the
source in the same run, turn by turn, and prints the ratio of the two instead of the floor.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness.bodies import CONTENTS, arrow_requests, json_requests
from benchmarks.harness.load import run_load
from benchmarks.harness.options import Options
from benchmarks.harness.pairs import BEFORE, Spread, gateways, in_turns, ratio
from benchmarks.harness.processes import PARTITIONS, Server, floor_server, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import Store, each

CONNECTIONS = (1, 16, 64)
BESIDE_CONNECTIONS = (16, 64)
"""One connection mostly waits for ``flush.ms``: that tells two sources apart badly."""
ROUNDS = 4


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
        """The text in which ``--body`` is looked for."""
        return f"{self.name}, {self.content}, {self.value_bytes} B"

    def requests(self) -> list[bytes]:
        """Return the prepared bytes of its requests."""
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


def measure(options: Options) -> Iterator[Table]:
    """Yield one table for each store: all bodies beside the floor, or large ones at two sources."""
    shapes = [shape for shape in SHAPES if options.body.lower() in shape.label.lower()]
    for place in each(options.store):
        if options.beside is None:
            yield _beside_the_floor(place, shapes, options.seconds)
        else:
            yield _at_two_sources(place, shapes, options.seconds, options.beside)


def _beside_the_floor(place: Store, shapes: Sequence[Shape], seconds: float) -> Table:
    table = Table(
        f"Produce, {place.label}, {PARTITIONS} partitions, default settings",
        [
            *("body", "values", "value", "connections", "records/s", "MB/s", "CPU us/record"),
            *("floor records/s", "floor CPU us/record", "other answers"),
        ],
        notes=["Values: random bytes (as JSON in base64), log lines, or one line that repeats."],
    )
    with gateway(place.uri, place.environment) as server, floor_server() as floor:
        make_topic(server.port)
        for shape in shapes:
            requests = shape.requests()
            for connections in shape.connections:
                bare = _load(floor, [], shape, requests, connections, seconds / 2)
                done = _load(server, place.servers, shape, requests, connections, seconds)
                table.add(*_first_cells(shape, connections), *_cells(done), f"{bare[0]:,.0f}", _us(bare[2]), done[3])
    return table


def _at_two_sources(place: Store, shapes: Sequence[Shape], seconds: float, beside: Path) -> Table:
    table = Table(
        f"Produce at two sources in turns, {place.label}, {PARTITIONS} partitions, default settings",
        [
            *("body", "values", "value", "connections", "source", "records/s", "MB/s", "CPU us/record"),
            *("least", "most", "of before", "other answers"),
        ],
        notes=[f"Medians of {ROUNDS} rounds of {seconds:g} s; of before: median of the ratios of each round's CPU."],
    )
    with contextlib.ExitStack() as running:
        servers = gateways(running, place, beside)
        for server in servers.values():
            make_topic(server.port)
        for shape in shapes:
            if shape.records < 1000:
                continue
            requests = shape.requests()
            for connections in shape.connections:
                if connections not in BESIDE_CONNECTIONS:
                    continue
                loads = {
                    name: partial(_load, server, place.servers, shape, requests, connections, seconds)
                    for name, server in servers.items()
                }
                runs = in_turns(loads, ROUNDS)
                base = [done[2] for done in runs[BEFORE]]
                for name, found in runs.items():
                    costs = [done[2] for done in found]
                    middle = [statistics.median(values) for values in zip(*found, strict=True)]
                    least, _, most = Spread([cost * 1e6 for cost in costs]).cells(2)
                    table.add(
                        *(*_first_cells(shape, connections), name, *_cells((middle[0], middle[1], middle[2], 0))),
                        *(least, most, f"{ratio(costs, base):.0%}", sum(done[3] for done in found)),
                    )
    return table


def _load(
    server: Server, stores: Sequence[Server], shape: Shape, requests: list[bytes], connections: int, seconds: float
) -> Done:
    counted = [server, *stores]
    before = sum(each.cpu_seconds() for each in counted)
    done = run_load(server.port, requests, connections=connections, seconds=seconds)
    cpu = sum(each.cpu_seconds() for each in counted) - before
    records = done.answers * shape.records
    rate = records / done.seconds
    return rate, rate * shape.value_bytes, cpu / records if records else float("nan"), done.others


def _first_cells(shape: Shape, connections: int) -> tuple[object, ...]:
    return shape.name, shape.content, f"{shape.value_bytes} B", connections


def _cells(done: Done) -> tuple[str, ...]:
    return f"{done[0]:,.0f}", f"{done[1] / 1e6:,.1f}", _us(done[2])


def _us(cost_s: float) -> str:
    return f"{cost_s * 1e6:,.2f}"
