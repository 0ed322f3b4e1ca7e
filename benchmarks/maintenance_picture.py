"""The cost of a long history as a picture: each operation beside the same on a topic with 100 commits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.maintenance_cost import TARGET, Costs

PICTURE: Final = Path(__file__).with_name("maintenance.png")
_COLOURS: Final = ("#1d4e6b", "#2a6f97", "#61a5c2", "#a9d6e5", "#bc4749")


def draw(costs: Costs, names: Sequence[str], path: Path = PICTURE) -> None:
    """Write the PNG: medians of ``names[1:]`` as bars, in multiples of ``names[0]``, on a logarithmic scale."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and needed only to draw

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    operations = list(costs)[::-1]
    figure, axes = plt.subplots(figsize=(10, 7.5), layout="constrained")
    height = 0.8 / (len(names) - 1)
    for index, name in enumerate(names[1:]):
        ratios = [_ratio(costs, operation, name, names[0]) for operation in operations]
        places = np.arange(len(operations)) + 0.4 - height * (index + 0.5)
        bars = axes.barh(places, ratios, height * 0.92, label=name, color=_COLOURS[index])
        texts = ["" if np.isnan(ratio) else f"{ratio:.2f} x" for ratio in ratios]
        axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.axvline(TARGET, color="0.3", linestyle="--", linewidth=1, label=f"{TARGET} x, the target when maintained")
    axes.axvline(1, color="0.6", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(operations)), operations)
    axes.set_xlabel(f"median time, in multiples of that with {names[0]}")
    axes.set_title("What a long history costs")
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    axes.margins(x=0.15)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _ratio(costs: Costs, operation: str, name: str, first: str) -> float:
    measured = costs[operation].get(name)
    if measured is None or not measured.ms:
        return float("nan")
    return measured.median_ms / costs[operation][first].median_ms
