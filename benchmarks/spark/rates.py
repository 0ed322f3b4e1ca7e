"""The speed of sources, and the cost of a query before its first record: topics of two sizes, and a line through both."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import psutil

from benchmarks.harness.report import Table

WARM_UPS: Final = 2
RUNS: Final = 3

Run = Callable[[], int]
"""Reads all records and returns their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A source, and how to read ``few`` and ``many`` records from it."""

    name: str
    few: Run
    many: Run


def rated(
    title: str, sources: Sequence[Measured], counts: tuple[int, int], seconds_max: float, *, notes: Sequence[str] = ()
) -> Table:
    """Measure each source; the first is what the others are compared with. ``counts``: the records of ``few`` and ``many``.

    All sources take turns, so that other work on the machine affects all alike, and all are warmed by the same records. After
    ``seconds_max`` no turn begins except the first two.
    """
    columns = [f"{counts[1]:,} records: rows/s", "beside Kafka's source", f"{counts[0]:,} records: rows/s"]
    columns += ["before the first record, s", "then rows/s", "CPU us/row"]
    table = Table(title, ["source", *columns], notes=list(notes))
    seconds: dict[str, list[tuple[float, float, float]]] = {source.name: [] for source in sources}
    began = time.monotonic()
    for turn in range(WARM_UPS + RUNS):
        if turn >= 2 and time.monotonic() - began > seconds_max:
            break
        for source in sources:
            few, _ = _timed(source, source.few, counts[0])
            many, cpu = _timed(source, source.many, counts[1])
            seconds[source.name].append((few, many, cpu))
    floor: float | None = None
    for name, figures in _medians(seconds).items():
        few, many, cpu = figures
        floor = counts[1] / many if floor is None else floor
        slope = (many - few) / (counts[1] - counts[0])
        table.add(
            name,
            f"{counts[1] / many:,.0f}",
            f"{counts[1] / many / floor:.1f} x",
            f"{counts[0] / few:,.0f}",
            f"{max(0.0, few - slope * counts[0]):.2f}",
            f"{1 / slope:,.0f}" if slope > 0 else "",
            f"{cpu / counts[1] * 1e6:.2f}",
        )
    return table


def _timed(source: Measured, run: Run, count: int) -> tuple[float, float]:
    cpu, began = cpu_seconds(), time.perf_counter()
    rows = run()
    seconds = time.perf_counter() - began
    if rows != count:
        raise RuntimeError(f"{source.name} gave {rows} of {count} records")
    return seconds, cpu_seconds() - cpu


def _medians(seconds: Mapping[str, Sequence[tuple[float, float, float]]]) -> dict[str, tuple[float, float, float]]:
    found = {}
    for name, turns in seconds.items():
        kept = turns[min(WARM_UPS, len(turns) - 1) :]
        few, many, cpu = (median(column) for column in zip(*kept, strict=True))
        found[name] = (few, many, cpu)
    return found


def cpu_seconds() -> float:
    """Return the CPU seconds of all processes below this one, ended ones included: the JVM, Python's, the broker."""
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
