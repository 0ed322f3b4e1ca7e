"""Metrics of the engine. No label names a topic: the number of topics is not bounded."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.engine.savings_watch import SavingsWatch
from gateway.telemetry.histograms import RegisteredHistogram

_BYTES: Final = tuple(float(1 << power) for power in range(8, 27, 2))
_COUNTS: Final = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
_BATCHES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 5000.0)


class EngineMetrics:
    """The engine's metrics, registered once in the gateway's registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.flush_bytes = RegisteredHistogram("tidelog_flush_bytes", "Records of a flush, in memory.", _BYTES)
        self.flush_batches = RegisteredHistogram("tidelog_flush_batches", "Requests that share a flush.", _BATCHES)
        self.stage_seconds = RegisteredHistogram("tidelog_flush_stage_seconds", "Encoding and uploading a segment.")
        self.commit_seconds = RegisteredHistogram("tidelog_commit_seconds", "The commit of a flush.")
        self.commit_attempts = RegisteredHistogram(
            "tidelog_commit_attempts", "Versions tried until a commit stood: above 1 others were faster.", _COUNTS
        )
        self.acknowledgement_seconds = RegisteredHistogram(
            "tidelog_acknowledgement_seconds", "From a batch's entry into the buffer to its acknowledgement."
        )
        for each in (
            *(self.flush_bytes, self.flush_batches, self.stage_seconds),
            *(self.commit_seconds, self.commit_attempts, self.acknowledgement_seconds),
        ):
            registry.register(each)
        self.savings = SavingsWatch(registry)
        self.flush_failures = Counter(
            "tidelog_flush_failures", "Flushes that were not acknowledged.", ("error_code",), registry=registry
        )
        self.appended_records = Counter("tidelog_appended_records", "Records acknowledged.", registry=registry)
        self.expired_records = Counter(
            "tidelog_expired_records",
            "Records of requests whose times are before what their topic keeps: maintenance will remove them.",
            registry=registry,
        )
        self.read_records = Counter(
            "tidelog_read_records", "Records read, from memory or from the store.", ("source",), registry=registry
        )
        self.store_errors = Counter(
            "tidelog_store_errors",
            "Calls to the store that failed, by what they were for.",
            ("purpose",),
            registry=registry,
        )
        self.checkpoints = Counter("tidelog_checkpoints", "Checkpoints, by outcome.", ("outcome",), registry=registry)
        self.buffered_bytes = 0
        """Bytes of records that wait for their acknowledgement. A plain number, since it changes twice a request."""
        Gauge("tidelog_buffered_bytes", "Records that wait for their acknowledgement.", registry=registry).set_function(
            lambda: self.buffered_bytes
        )
        self.tail_cache_bytes = Gauge("tidelog_tail_cache_bytes", "Records kept for tail reads.", registry=registry)
        self.topics_loaded = Gauge("tidelog_topics_loaded", "Topics whose state is in memory.", registry=registry)
        self.manifest_bytes = Gauge(
            "tidelog_manifest_bytes", "What the segments of loaded topics take in memory.", registry=registry
        )
        self.manifest_bytes_max = Gauge(
            "tidelog_manifest_bytes_limit", "Past it nothing is appended: the setting.", registry=registry
        )
        self.manifest_refusals = Counter(
            "tidelog_manifest_refusals", "Requests refused since maintenance is behind.", registry=registry
        )
        self._make_state(registry)
        self._make_journals(registry)
        self.topics_behind = Gauge(
            "tidelog_topics_behind_maintenance",
            "Loaded topics with more segments than maintenance would leave.",
            registry=registry,
        )
        self.foreign_commits = Counter(
            "tidelog_foreign_commits",
            "Commits of other programs to topics' tables: they count for nothing and are put back.",
            registry=registry,
        )
        self.waiting_polls = Gauge("tidelog_waiting_polls", "Long polls and event streams.", registry=registry)

    def _make_journals(self, registry: CollectorRegistry) -> None:
        self.topic_moves = Counter(
            "tidelog_topic_moves",
            "Topics moved by this gateway's measure, by where they went.",
            ("to",),
            registry=registry,
        )
        self.drains = Counter("tidelog_drains", "Topics drained from journals.", registry=registry)
        self.drain_failures = Counter(
            "tidelog_drain_failures", "Drains that failed; they are tried again.", registry=registry
        )
        self.journal_flush_bytes = Histogram(
            "tidelog_journal_flush_bytes",
            "Records of a journal's flush, in memory; they count in tidelog_flush_bytes, too.",
            buckets=_BYTES,
            registry=registry,
        )
        self.journal_flush_topics = Histogram(
            "tidelog_journal_flush_topics",
            "Topics that share a journal's flush.",
            buckets=_BATCHES,
            registry=registry,
        )
        of_journal = ("journal",)
        self.journal_topics = Gauge("tidelog_journal_topics", "Topics at a journal.", of_journal, registry=registry)
        self.undrained_records = Gauge(
            "tidelog_journal_undrained_records",
            "Records that their topics' tables lack.",
            of_journal,
            registry=registry,
        )
        self.undrained_bytes = Gauge(
            "tidelog_journal_undrained_bytes", "Stored bytes of these records.", of_journal, registry=registry
        )
        self.undrained_seconds = Gauge(
            "tidelog_journal_undrained_seconds", "Age of the oldest of these records.", of_journal, registry=registry
        )
        self.overdue_seconds = Gauge(
            "tidelog_journal_overdue_seconds",
            "By how much a topic's table is further behind than its drain.ms allows, at most.",
            of_journal,
            registry=registry,
        )

    def _make_state(self, registry: CollectorRegistry) -> None:
        self.state_bytes = Gauge(
            "tidelog_state_bytes",
            "What is known of topics, groups, transactions, in memory.",
            ("of",),
            registry=registry,
        )
        self.state_bytes_max = Gauge(
            "tidelog_state_bytes_limit", "Past it what would make it larger is refused.", ("of",), registry=registry
        )
        self.state_refusals = Counter(
            "tidelog_state_refusals", "Requests refused since too much is known already.", ("of",), registry=registry
        )
