"""All samples of the metrics that the history and the alarms are made of, at one time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry

Labels = Mapping[str, str]


class Samples:
    """Samples by name, each with its labels, at ``at_ms``."""

    def __init__(self, at_ms: int, found: Mapping[str, Sequence[tuple[Labels, float]]]) -> None:
        self.at_ms = at_ms
        self._found = found

    def of(self, name: str, where: Labels | None = None) -> Iterator[tuple[Labels, float]]:
        """Yield the samples with this name whose labels have the values of ``where``."""
        for labels, value in self._found.get(name, ()):
            if not where or all(labels.get(label) == wanted for label, wanted in where.items()):
                yield labels, value

    def total(self, name: str, where: Labels | None = None) -> float:
        """Return the sum of these samples; 0 if there are none."""
        return sum(value for _, value in self.of(name, where))

    def buckets(self, name: str, where: Labels | None = None) -> dict[float, float]:
        """Return the observations of histograms up to each upper bound, in seconds, summed over other labels."""
        counts: dict[float, float] = {}
        for labels, value in self.of(f"{name}_bucket", where):
            bound = float(labels["le"])
            counts[bound] = counts.get(bound, 0.0) + value
        return dict(sorted(counts.items()))


def take_samples(registry: CollectorRegistry, names: Collection[str], at_ms: int) -> Samples:
    """Return the samples of the registry that have one of the names: all metrics are asked, as by a scrape."""
    found: dict[str, list[tuple[Labels, float]]] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            if sample.name in names:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return Samples(at_ms, found)
