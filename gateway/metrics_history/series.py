"""Series over equal steps, added up from the intervals of many gateways.

A count of an interval that spans several steps is divided among them by time; a level or a lag is that of each of them; latencies
are those of the step in which the interval ends, since their minutes are no longer than a step. Over gateways counts and stored
bytes are sums, other levels and lags the largest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

from gateway.metrics_history.interval import COUNTS, LATENCIES, LEVELS, LOOP_DELAY, STORED, Interval
from gateway.monitoring.metrics_reading import quantile_ms

By = Literal["cluster", "gateway", "group"]
SHARES: Final = {"p50": 0.5, "p99": 0.99}
_QUANTILES: Final = {f"{name}_{word}_ms": (name, share) for name in LATENCIES for word, share in SHARES.items()}
LAG_SERIES: Final = ("lag_records", "lag_seconds")
SERIES: Final = (*COUNTS, *_QUANTILES, *LEVELS, LOOP_DELAY, STORED, *LAG_SERIES)
"""Names of all series."""
GROUP_SERIES_MAX: Final = 20
"""Most pairs of group and topic that are answered, those with the largest values."""

_Key = tuple[str, str, str]
"""Gateway, group, topic: what a series is about."""
_Observed = dict[tuple[str, str], dict[int, dict[float, int]]]
"""Observations of a latency of a gateway, by step and then by the upper bound of their bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """``count`` steps of ``step_ms`` from ``since_ms`` on."""

    since_ms: int
    step_ms: int
    count: int

    @property
    def until_ms(self) -> int:
        """End of the last step."""
        return self.since_ms + self.count * self.step_ms

    def overlaps(self, interval: Interval) -> Iterable[tuple[int, float]]:
        """Yield the steps that the interval lies in, each with the share of the interval in it."""
        length_ms = max(1, interval.end - interval.start)
        first = max(0, (interval.start - self.since_ms) // self.step_ms)
        last = min(self.count - 1, (interval.end - 1 - self.since_ms) // self.step_ms)
        for step in range(first, last + 1):
            begin = self.since_ms + step * self.step_ms
            inside = min(interval.end, begin + self.step_ms) - max(interval.start, begin)
            yield step, inside / length_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A series; None where no gateway that it is about has a number. ``gateway``, ``group``, ``topic``: None in a sum."""

    name: str
    values: Sequence[float | None]
    gateway: str | None = None
    group: str | None = None
    topic: str | None = None


@dataclass(slots=True)
class _Values:
    values: dict[int, float] = field(default_factory=dict)

    def add(self, step: int, amount: float) -> None:
        self.values[step] = self.values.get(step, 0.0) + amount

    def raise_to(self, step: int, level: float) -> None:
        self.values[step] = max(self.values.get(step, -inf), level)


def series_of(names: Collection[str], intervals: Iterable[Interval], grid: Grid, by: By) -> list[Series]:
    """Return the named series of the intervals, in the order of their names; with ``by`` one for each gateway, or, of lags, for
    each group and topic."""
    found: dict[str, dict[_Key, _Values]] = {name: {} for name in names}
    observed: _Observed = {}
    of_gateway: dict[str, dict[str, _Values]] = {}
    for interval in intervals:
        key = (interval.gateway if by == "gateway" else "", "", "")
        steps = list(grid.overlaps(interval))
        if not steps:
            continue
        for name in names:
            if name in COUNTS:
                values = found[name].setdefault(key, _Values())
                for step, share in steps:
                    values.add(step, interval.counts.get(name, 0.0) * share)
            elif name in interval.levels:
                values = of_gateway.setdefault(name, {}).setdefault(interval.gateway, _Values())
                for step, _ in steps:
                    values.raise_to(step, interval.levels[name])
            elif name in LAG_SERIES:
                _add_lags(found[name], interval, steps[-1][0], name, by)
        _add_latencies(observed, interval, key[0], steps[-1][0])
    for name, levels in of_gateway.items():
        found[name] |= _combined(levels, is_sum=name == STORED, by=by)
    for (latency, gateway), of_steps in observed.items():
        for name in found.keys() & {f"{latency}_{word}_ms" for word in SHARES}:
            values = found[name][gateway, "", ""] = _Values()
            for step, buckets_of_step in of_steps.items():
                values.values[step] = _quantile(buckets_of_step, _QUANTILES[name][1])
    return [one for name in names for one in _series(name, found[name], grid, by)]


def _add_latencies(observed: _Observed, interval: Interval, gateway: str, step: int) -> None:
    for latency, buckets in interval.latencies.items():
        of_step = observed.setdefault((latency, gateway), {}).setdefault(step, {})
        for bound, count in buckets.items():
            of_step[float(bound)] = of_step.get(float(bound), 0) + count


def _add_lags(found: dict[_Key, _Values], interval: Interval, step: int, name: str, by: By) -> None:
    gateway = interval.gateway if by == "gateway" else ""
    if by != "group":
        found.setdefault((gateway, "", ""), _Values()).raise_to(step, 0.0)
    for lag in interval.lags:
        key = ("", lag.group, lag.topic) if by == "group" else (gateway, "", "")
        level = lag.record_count if name == "lag_records" else lag.age_seconds
        found.setdefault(key, _Values()).raise_to(step, level)


def _combined(levels: Mapping[str, _Values], *, is_sum: bool, by: By) -> dict[_Key, _Values]:
    if by == "gateway":
        return {(gateway, "", ""): values for gateway, values in levels.items()}
    total = _Values()
    for values in levels.values():
        for step, level in values.values.items():
            if is_sum:
                total.add(step, level)
            else:
                total.raise_to(step, level)
    return {("", "", ""): total}


def _quantile(buckets: Mapping[float, int], share: float) -> float:
    up_to, counts = 0, []
    for bound, count in sorted(buckets.items()):
        up_to += count
        counts.append((bound, float(up_to)))
    value = quantile_ms((), tuple(counts), share)
    assert value is not None, "only buckets with observations are kept"
    return value


def _series(name: str, found: Mapping[_Key, _Values], grid: Grid, by: By) -> list[Series]:
    keys = sorted(found)
    if by == "group":
        keys = sorted(found, key=lambda key: -max(found[key].values.values(), default=0.0))[:GROUP_SERIES_MAX]
    return [
        Series(
            name=name,
            values=[_rounded(found[key].values.get(step)) for step in range(grid.count)],
            gateway=key[0] or None,
            group=key[1] or None,
            topic=key[2] or None,
        )
        for key in keys
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
