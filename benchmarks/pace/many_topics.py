"""Loads of ``benchmarks.topics``, with early flushes and without, in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.harness.processes import ROOT
from benchmarks.harness.report import Table
from benchmarks.topics import loads
from benchmarks.topics.outcome import Options, shown
from benchmarks.topics.site import DEFAULT_MODE, Run
from tidelog.cli.cost.prices import request_dollars

CASES: Final = ("1000x1", "1000x1-ten-hot", "200x20", "10000x0.1")
FLUSHES: Final[dict[str, Sequence[str]]] = {"early": (), "by timer": ("--flush-savings-max-ms", "0")}
_WARM_UP_SECONDS_MAX: Final = 5.0
_HOUR: Final = 3_600


def measure(cases: Sequence[str], stores: Sequence[str], seconds: float, topics: int | None) -> list[dict[str, Any]]:
    """Measure cases, and return the rows of their table for machines. ``topics``: in place of the cases' own numbers."""
    names = ("acknowledged/s", "p50 ms", "p99 ms", "not acknowledged", "PUT/s", "GET/s")
    table = Table("Many topics, with early flushes and without", ["load", "store", "flushes", *names, "$ an hour"])
    rows: list[dict[str, Any]] = []
    for case in cases:
        for store in stores:
            for flushes, settings in FLUSHES.items():
                options = Options(
                    seconds=seconds,
                    warm_up_seconds=min(seconds, _WARM_UP_SECONDS_MAX),
                    topics=topics,
                    drain_ms=0,
                    settings=settings,
                )
                outcome = loads.measure(case, Run(tree=ROOT, store=store, mode=DEFAULT_MODE), options)
                asked = [outcome.figures[name] for name in ("PUT/s", "GET/s")]
                dollars = sum(
                    count * request_dollars(kind) * _HOUR
                    for count, kind in zip(asked, ("PUT", "GET"), strict=True)
                    if isinstance(count, float)
                )
                table.add(case, store, flushes, *(shown(outcome.figures[name]) for name in names), f"{dollars:.4f}")
                told = {"load": case, "store": store, "flushes": flushes, "dollars_an_hour": dollars}
                rows.append(told | {"figures": outcome.as_json()["figures"]})
    return rows
