"""Heat map of the mean departure delay by hour of day and carrier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tidelog.demo.spark_job import Group

DELAY_MINUTES_MAX: Final = 45
"""End of the colour scale: a few groups with few flights are far beyond it and would leave the others pale."""

FLIGHTS_MIN: Final = 10
"""Departures below which a group is left blank: its mean says nothing."""


def draw(groups: Sequence[Group], carrier_names: Mapping[str, str], path: Path) -> None:
    """Write the PNG: a row for each carrier (most flights on top), a column for each hour of day.

    ``groups`` has at least one entry.
    """
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and only now is there something to draw

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    flights: dict[str, int] = {}
    for group in groups:
        flights[group.carrier] = flights.get(group.carrier, 0) + group.flights
    carriers = sorted(flights, key=lambda carrier: (-flights[carrier], carrier))
    telling = [group for group in groups if group.departed >= FLIGHTS_MIN] or groups
    hours = range(min(group.hour for group in telling), max(group.hour for group in telling) + 1)
    delays = np.full((len(carriers), len(hours)), np.nan)
    for group in telling:
        if group.mean_delay_minutes is not None:
            delays[carriers.index(group.carrier), group.hour - hours.start] = group.mean_delay_minutes

    figure, axes = plt.subplots(figsize=(13, 7), layout="constrained")
    colours = mpl.colormaps["YlOrRd"].with_extremes(bad="0.93")
    image = axes.imshow(delays, aspect="auto", cmap=colours, vmin=0, vmax=DELAY_MINUTES_MAX)
    axes.set_xticks(range(len(hours)), [f"{hour:02d}" for hour in hours])
    axes.set_yticks(range(len(carriers)), [f"{carrier_names.get(name, name)} ({name})" for name in carriers])
    for row, column in zip(*np.nonzero(~np.isnan(delays)), strict=True):
        delay = delays[row, column]
        colour = "white" if delay > DELAY_MINUTES_MAX * 0.6 else "0.15"
        axes.text(column, row, str(round(delay)), ha="center", va="center", fontsize=8, color=colour)
    axes.set_xlabel("scheduled hour of departure (local time)")
    axes.set_title(
        f"Mean departure delay in minutes, New York City 2013: {sum(flights.values()):,} flights\n"
        f"kept by Spark Structured Streaming while they arrived (blank: fewer than {FLIGHTS_MIN} departures)"
    )
    figure.colorbar(image, ax=axes, label="minutes", extend="max")
    figure.savefig(path, dpi=110)
    plt.close(figure)
