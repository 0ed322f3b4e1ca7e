"""The figures of one case, what was wanted of them, and how both are shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.harness.percentiles import percentile
from benchmarks.harness.report import Table
from benchmarks.topics.answers import Answers
from benchmarks.topics.site import Run

Figure = float | int | str | None
ACKNOWLEDGEMENT_MS_MAX: Final = 250 + 250
"""The default ``flush.ms``, and 250."""
RSS_MIB_MAX: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of all cases."""

    seconds: float
    warm_up_seconds: float
    topics: int | None
    """In place of a case's own number of topics."""
    drain_ms: int
    settings: Sequence[str] = ()
    """Options of the gateway, where a load is measured; it has defaults for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One measured case. A figure's unit is in its name."""

    case: str
    run: Run
    figures: Mapping[str, Figure]
    wanted: Mapping[str, float] = field(default_factory=dict)
    """The most that each of these figures should be."""

    def as_json(self) -> dict[str, Any]:
        """Return the case for machines; a figure that was not measured is null."""
        figures = {name: _or_none(value) for name, value in self.figures.items()}
        return {
            "case": self.case,
            "tree": self.run.tree_name,
            "store": self.run.store,
            "mode": self.run.mode,
            "figures": figures,
            "wanted": dict(self.wanted),
        }


def acknowledged(answers: Answers, start: float, end: float) -> dict[str, Figure]:
    """Return the usual figures of requests due in ``[start, end)``."""
    chosen = answers.between(start, end)
    latency = chosen.latency_ms()
    refused = chosen.refused()
    return {
        "due/s": len(chosen.due) / (end - start),
        "acknowledged/s": answers.acknowledged_between(start, end) / (end - start),
        "p50 ms": percentile(latency, 0.5),
        "p99 ms": percentile(latency, 0.99),
        "not acknowledged": sum(refused.values()),
        "by code": ", ".join(f"{code} {count}" for code, count in refused.items()),
    }


def shown(value: Figure) -> str:
    """Return a figure for people: three digits that count."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else value


def tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """Return one table for each form of figures, printed as it is filled; then what was wanted."""
    made: dict[tuple[str, ...], Table] = {}
    kept = []
    for outcome in outcomes:
        kept.append(outcome)
        columns = tuple(outcome.figures)
        table = made.get(columns)
        if table is None:
            table = made[columns] = Table(f"Topics: {outcome.case}", ["case", "tree", "store", "mode", *columns])
        run = outcome.run
        table.add(outcome.case, run.tree_name, run.store, run.mode, *map(shown, outcome.figures.values()))
    return [*made.values(), _wanted(kept)]


def _wanted(outcomes: Sequence[Outcome]) -> Table:
    table = Table("Topics: wanted and measured", ["case", "tree", "store", "mode", "figure", "at most", "measured", ""])
    for outcome in [*outcomes, *ratios(outcomes)]:
        run = outcome.run
        for name, most in outcome.wanted.items():
            measured = outcome.figures[name]
            is_met = isinstance(measured, float | int) and measured <= most
            cells = (outcome.case, run.tree_name, run.store, run.mode, name, shown(most), shown(measured))
            table.add(*cells, "yes" if is_met else "NO")
    return table


def ratios(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return PUTs with 1,000 topics by those with 10, of each run that measured both."""
    found = {(outcome.run, outcome.case): outcome for outcome in outcomes}
    made = []
    for (run, case), many in found.items():
        few = found.get((run, "10x1"))
        if case == "1000x1" and few is not None:
            puts = [outcome.figures["PUT/s"] for outcome in (many, few)]
            assert isinstance(puts[0], float)
            assert isinstance(puts[1], float)
            ratio = puts[0] / puts[1] if puts[1] else math.nan
            name = "PUT/s beside those of 10x1"
            made.append(Outcome(case=case, run=run, figures={name: ratio}, wanted={name: 1.2}))
    return made


def _or_none(value: Figure) -> Figure:
    return None if isinstance(value, float) and not math.isfinite(value) else value
