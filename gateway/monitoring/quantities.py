"""Quantities that alarms are about: each is measured by a gateway from its own samples, and is an expression of PromQL.

So a rule is written once; a test compares ``infra/observability/alerts.yaml`` with it. A gateway measures what it has itself:
where PromQL takes a sum or a maximum over gateways, a gateway takes its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.monitoring.metrics_reading import quantile_ms
from gateway.monitoring.samples import Labels, Samples

Measured = Mapping[tuple[str, ...], float]
"""Values by the values of the labels that tell them apart."""
MINUTE_MS = 60_000


class Window:
    """Samples of the last minutes, the newest last; at least one."""

    def __init__(self, samples: Sequence[Samples]) -> None:
        self._samples = samples
        self.now = samples[-1]

    def before(self, minutes: float) -> Samples:
        """Return the samples so many minutes ago, or the oldest that there are."""
        wanted_ms = self.now.at_ms - minutes * MINUTE_MS
        return next((one for one in reversed(self._samples) if one.at_ms <= wanted_ms), self._samples[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A quantity. ``names``: the samples that it needs; ``measure``: its values in a window; none where it is not known."""

    promql: str
    names: Collection[str]
    measure: Callable[[Window], Measured]


def level(name: str, by: Sequence[str] = (), *, largest: bool = True, where: str = "") -> Quantity:
    """Return the value of a gauge, the largest for each value of the labels ``by``; ``where``: a selector of PromQL."""
    promql = f"{name}{where}"
    if largest:
        promql = f"max by ({', '.join(by)}) ({promql})" if by else f"max({promql})"
    return Quantity(promql=promql, names=(name,), measure=lambda window: _largest(window.now, name, by))


def seconds_since(name: str) -> Quantity:
    """Return how many seconds ago the time is that a gauge has; negative: it is to come."""

    def measure(window: Window) -> Measured:
        return {key: window.now.at_ms / 1000 - value for key, value in _largest(window.now, name, ()).items()}

    return Quantity(promql=f"time() - {name}", names=(name,), measure=measure)


def used_share(name: str, limit_name: str, by: Sequence[str] = (), *, without: Collection[str] = ()) -> Quantity:
    """Return how much of its limit a gauge takes; PromQL has the gauge itself, to be compared with a part of the limit. Values
    of the label ``by`` that are in ``without`` are left out."""
    where = "".join(f'{{{label}!="{value}"}}' for label in by for value in without)

    def measure(window: Window) -> Measured:
        limits = _largest(window.now, limit_name, by)
        used = _largest(window.now, name, by)
        return {key: used[key] / limits[key] for key in used if limits.get(key) and not set(key) & set(without)}

    return Quantity(promql=f"{name}{where}", names=(name, limit_name), measure=measure)


def rate(name: str, minutes: int, by: Sequence[str] = (), *, where: str = "", labels: Labels | None = None) -> Quantity:
    """Return the growth of a counter a second over the last minutes; ``where``: a selector of PromQL, ``labels``: the same."""
    grouped = f" by ({', '.join(by)})" if by else ""

    def measure(window: Window) -> Measured:
        before = window.before(minutes)
        seconds = (window.now.at_ms - before.at_ms) / 1000
        if seconds <= 0:
            return {}
        now, earlier = _summed(window.now, name, by, labels), _summed(before, name, by, labels)
        return {key: max(0.0, value - earlier.get(key, 0.0)) / seconds for key, value in now.items()}

    return Quantity(promql=f"sum{grouped}(rate({name}{where}[{minutes}m]))", names=(name,), measure=measure)


def increase(name: str, minutes: int) -> Quantity:
    """Return the growth of a counter over the last minutes."""

    def measure(window: Window) -> Measured:
        return {(): max(0.0, window.now.total(name) - window.before(minutes).total(name))}

    return Quantity(promql=f"sum(increase({name}[{minutes}m]))", names=(name,), measure=measure)


def ratio(part: Quantity, whole: Quantity) -> Quantity:
    """Return the ratio of two quantities without labels; where the second is 0 there is none."""

    def measure(window: Window) -> Measured:
        divisor = whole.measure(window).get((), 0.0)
        return {(): part.measure(window).get((), 0.0) / divisor} if divisor else {}

    return Quantity(promql=f"{part.promql} / {whole.promql}", names=(*part.names, *whole.names), measure=measure)


def p99_seconds(name: str, minutes: float) -> Quantity:
    """Return the 99th percentile of a histogram's observations of the last minutes; where there were none there is none."""

    def measure(window: Window) -> Measured:
        before, now = window.before(minutes).buckets(name), window.now.buckets(name)
        found = quantile_ms(tuple(before.items()), tuple(now.items()), 0.99)
        return {} if found is None else {(): found / 1000}

    promql = f"histogram_quantile(0.99, sum by (le) (rate({name}_bucket[{minutes}m])))"
    return Quantity(promql=promql, names=(f"{name}_bucket",), measure=measure)


def _keyed(
    samples: Samples, name: str, by: Sequence[str], labels: Labels | None
) -> Iterator[tuple[tuple[str, ...], float]]:
    for found, value in samples.of(name, labels):
        yield tuple(found.get(label, "") for label in by), value


def _largest(samples: Samples, name: str, by: Sequence[str]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for key, value in _keyed(samples, name, [label for label in by if label != "instance"], None):
        found[key] = max(value, found.get(key, value))
    return found


def _summed(samples: Samples, name: str, by: Sequence[str], labels: Labels | None) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for key, value in _keyed(samples, name, by, labels):
        found[key] = found.get(key, 0.0) + value
    return found
