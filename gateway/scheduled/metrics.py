"""Metrics of a gateway's delayed records."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram


class ScheduledMetrics:
    """Metrics of delayed records. ``late_seconds``: from the end of the previous window to a publication's answer, an upper bound
    of lateness."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.scheduled = Counter("tidelog_scheduled_records", "Delayed records accepted.", registry=registry)
        self.published = Counter(
            "tidelog_published_delayed_records", "Delayed records published by this gateway.", registry=registry
        )
        self.late_seconds = Histogram(
            "tidelog_publication_late_seconds",
            "Seconds by which the first record of a publication was late.",
            registry=registry,
            buckets=(0.05, 0.1, 0.2, 0.4, 0.7, 1, 2, 5, 15, 60),
        )
