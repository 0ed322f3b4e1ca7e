"""Latency and the store's dollars a month against the number of topics, as a PNG."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

from benchmarks.harness.processes import ROOT
from benchmarks.topics.outcome import ACKNOWLEDGEMENT_MS_MAX, Outcome

COST: Final = ROOT / "docs" / "cost.md"
TOPICS: Final = {"10x1": 10, "100x1": 100, "1000x1": 1_000, "10000x0.1": 10_000}
SECONDS_A_MONTH: Final = 730 * 3600
_PRICE: Final = re.compile(r"^\| S3 (PUT|GET), 1,000 \| ([0-9.]+) \|", re.MULTILINE)
_COLOURS: Final = ("#2a6f97", "#bc4749", "#588157", "#e09f3e")


def prices(document: str) -> dict[str, float]:
    """Return the dollars of one PUT and one GET, from the table in docs/cost.md."""
    return {verb: float(dollars) / 1_000 for verb, dollars in _PRICE.findall(document)}


def dollars_a_month(figures: Mapping[str, object], price: Mapping[str, float]) -> float:
    """Return dollars of the requests to the store, for all that was due, had it been acknowledged at the counted price."""
    puts, gets, due, acknowledged = (figures[name] for name in ("PUT/s", "GET/s", "due/s", "acknowledged/s"))
    assert isinstance(puts, float)
    assert isinstance(gets, float)
    assert isinstance(due, float)
    assert isinstance(acknowledged, float)
    scale = max(1.0, due / acknowledged) if acknowledged else float("nan")
    return (puts * price["PUT"] + gets * price["GET"]) * SECONDS_A_MONTH * scale


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the PNG: a line for each tree, store and mode, over the loads of 10 to 10,000 topics that were measured."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and needed only to draw

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    lines: dict[str, list[tuple[int, float, float]]] = {}
    price = prices(COST.read_text())
    stores, trees = (
        len({of(outcome.run) for outcome in outcomes}) for of in (attrgetter("store"), attrgetter("tree_name"))
    )
    for outcome in outcomes:
        if outcome.case in TOPICS:
            run, latency = outcome.run, outcome.figures["p99 ms"]
            assert isinstance(latency, float)
            name = run.mode + f", {run.store}" * (stores > 1) + f", {run.tree_name}" * (trees > 1)
            point = (TOPICS[outcome.case], latency, dollars_a_month(outcome.figures, price))
            lines.setdefault(name, []).append(point)
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 8), sharex=True, layout="constrained")
    for number, (name, points) in enumerate(lines.items()):
        topics, latencies, dollars = zip(*sorted(points), strict=True)
        colour = _COLOURS[number % len(_COLOURS)]
        above.plot(topics, latencies, "o-", label=name, color=colour)
        below.plot(topics, dollars, "o-", label=name, color=colour)
    above.axhline(ACKNOWLEDGEMENT_MS_MAX, color="0.4", linestyle="--", linewidth=1, label="flush.ms + 250 ms")
    above.set_ylabel("acknowledgement p99, ms")
    above.set_title("One gateway, one record a second and topic; at 10,000 topics one in ten seconds")
    below.set_ylabel("requests to S3, $ a month")
    below.set_xlabel("topics")
    for axes in (above, below):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(list(TOPICS.values()))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:,.0f}")
        axes.grid(visible=True, color="0.9")
    above.legend(fontsize=8)
    figure.savefig(path, dpi=100)
    plt.close(figure)
