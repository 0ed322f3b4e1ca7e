"""A table of 10,000 segments by the Iceberg catalog: its first load, loads after commits, plans, and producers beside loads.

1. The floor is the gateway's look at the topic's log (``GET /v1/topics/{topic}``); the peer is deltalake, which opens the same
   table by itself and lists its files. Both are measured in turns with what they are compared with.
2. A first load is one for which all that was published before has been deleted.
3. A producer that waits for each answer writes into another topic, in turns without loads and beside a load a second, each after
   a commit.

The segments' contents are made up, since no load reads them.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from deltalake import DeltaTable

from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile, percentile_text
from benchmarks.harness.processes import call, gateway, make_topic
from benchmarks.harness.report import Table, held
from benchmarks.harness.stores import store
from benchmarks.maintenance.clone import SOURCE, fill

SEGMENTS: Final = 10_000
FIRST_LOADS: Final = 10
LOADS: Final = 50
TURNS: Final = 6
TURN_S: Final = 5.0
FIRST_MS_MAX: Final = 2_000
MS_MAX: Final = 300
OBJECTS_MAX: Final = 200
RATIO_MAX: Final = 1.1
_TABLE: Final = f"/iceberg/v1/namespaces/topics/tables/{SOURCE}"
_FILTER: Final = {"filter": {"type": "gt-eq", "term": "offset", "value": SEGMENTS - 100}}


def measure(options: Options) -> Iterator[Table]:
    """Yield two tables: milliseconds of loads and plans, and a producer's beside loads."""
    del options
    with store("directory") as place:
        fill(place, SEGMENTS)
        with gateway(place.uri) as server:
            topic = Path(urlsplit(place.uri).path) / "topics" / SOURCE
            yield _loads(server.port, topic)
            yield _beside(server.port)


def _loads(port: int, topic: Path) -> Table:
    table = Table(
        f"A table of {SEGMENTS:,} segments by the Iceberg catalog",
        ["what", "p50 ms", "p99 ms", "bound ms", "", "floor p99", "deltalake p99"],
    )
    floor: list[float] = []
    peer: list[float] = []
    published = topic / "_iceberg"
    made: set[Path] = set()
    counts: list[int] = []

    def first() -> None:
        shutil.rmtree(published, ignore_errors=True)

    def load() -> None:
        call(port, "GET", _TABLE)

    def counted() -> None:
        now = set(published.rglob("*.avro"))
        counts.append(len(now - made))
        made.update(now)

    cases: list[tuple[str, int, int, Callable[[], None], Callable[[], Any]]] = [
        ("first load", FIRST_LOADS, FIRST_MS_MAX, first, load),
        ("load after one more commit", LOADS, MS_MAX, counted, load),
        (
            "plan of the newest 100 segments",
            LOADS,
            MS_MAX,
            lambda: None,
            lambda: call(port, "POST", f"{_TABLE}/plan", _FILTER),
        ),
        (
            "plan of everything, first page",
            LOADS,
            MS_MAX,
            lambda: None,
            lambda: call(port, "POST", f"{_TABLE}/plan", {}),
        ),
    ]
    for name, turns, bound_ms, before, work in cases:
        times = []
        for _ in range(turns):
            _produce(port, SOURCE)
            before()
            times.append(_timed(work))
            floor.append(_timed(lambda: call(port, "GET", f"/v1/topics/{SOURCE}")))
        peer += [_timed(lambda: DeltaTable(str(topic)).file_uris()) for _ in range(5)]
        is_held = percentile(times, 0.99) <= bound_ms
        cells = (percentile_text(times, 0.5), percentile_text(times, 0.99), bound_ms, held(is_held))
        table.add(name, *cells, percentile_text(floor, 0.99), percentile_text(peer, 0.99))
    # The first count has what first loads left.
    an_hour = 60 * max(counts[1:])
    table.notes.append(
        f"A load after commits puts at most {max(counts[1:])} objects, however many commits there were: "
        f"{an_hour} an hour of a topic that is loaded once a minute ({held(an_hour <= OBJECTS_MAX)}: at most {OBJECTS_MAX})."
    )
    print(f"  {table.notes[-1]}", flush=True)
    return table


def _beside(port: int) -> Table:
    table = Table(
        "A producer beside a load a second", ["", "p50 ms", "p99 ms", "p99 beside / alone, median of pairs", ""]
    )
    make_topic(port, "beside")
    alone: list[float] = []
    beside: list[float] = []
    ratios: list[float] = []
    for turn in range(TURNS):
        pair: dict[bool, list[float]] = {}
        for is_loaded in (False, True) if turn % 2 else (True, False):
            pair[is_loaded] = _producing(port, is_loaded=is_loaded)
        alone += pair[False]
        beside += pair[True]
        ratios.append(percentile(pair[True], 0.99) / percentile(pair[False], 0.99))
    ratio = percentile(ratios, 0.5)
    table.add("alone", percentile_text(alone, 0.5), percentile_text(alone, 0.99), "", "")
    table.add(
        "beside", percentile_text(beside, 0.5), percentile_text(beside, 0.99), f"{ratio:.2f}", held(ratio <= RATIO_MAX)
    )
    return table


def _producing(port: int, *, is_loaded: bool) -> list[float]:
    ended = threading.Event()

    def load() -> None:
        while not ended.wait(1):
            _produce(port, SOURCE)
            call(port, "GET", _TABLE)

    loader = threading.Thread(target=load)
    if is_loaded:
        loader.start()
    times, until = [], time.monotonic() + TURN_S
    while time.monotonic() < until:
        times.append(_timed(lambda: _produce(port, "beside")))
    ended.set()
    if is_loaded:
        loader.join()
    return times


def _produce(port: int, topic: str) -> None:
    call(port, "POST", f"/v1/topics/{topic}/records", {"records": [{"value": "v"}]})


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
