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
        self.flush_bytes = RegisteredHistogram("tidelog_flush_bytes", "Bytes of a flush's records in memory.", _BYTES)
        self.flush_batches = RegisteredHistogram("tidelog_flush_batches", "Requests in one flush.", _BATCHES)
        self.stage_seconds = RegisteredHistogram("tidelog_flush_stage_seconds", "Seconds to encode and upload.")
        self.commit_seconds = RegisteredHistogram("tidelog_commit_seconds", "Seconds to commit a flush.")
        self.commit_attempts = RegisteredHistogram(
            "tidelog_commit_attempts", "Versions tried for one commit; above 1 other writers committed first.", _COUNTS
        )
        self.acknowledgement_seconds = RegisteredHistogram(
            "tidelog_acknowledgement_seconds", "Seconds from a batch's arrival in the buffer to its acknowledgement."
        )
        for each in (
            *(self.flush_bytes, self.flush_batches, self.stage_seconds),
            *(self.commit_seconds, self.commit_attempts, self.acknowledgement_seconds),
        ):
            registry.register(each)
        self.savings = SavingsWatch(registry)
        self.flush_failures = Counter(
            "tidelog_flush_failures", "Flushes that failed, by error code.", ("error_code",), registry=registry
        )
        self.appended_records = Counter("tidelog_appended_records", "Records acknowledged.", registry=registry)
        self.expired_records = Counter(
            "tidelog_expired_records",
            "Records appended with timestamps older than their topic's retention; maintenance will remove them.",
            registry=registry,
        )
        self.read_records = Counter(
            "tidelog_read_records", "Records read, by source: memory or the store.", ("source",), registry=registry
        )
        self.store_errors = Counter(
            "tidelog_store_errors", "Failed requests to the store, by purpose.", ("purpose",), registry=registry
        )
        self.checkpoints = Counter("tidelog_checkpoints", "Checkpoints, by outcome.", ("outcome",), registry=registry)
        self.buffered_bytes = 0
        """Bytes of records that wait for their acknowledgement. A plain number, since it changes twice a request."""
        Gauge("tidelog_buffered_bytes", "Bytes of records not yet acknowledged.", registry=registry).set_function(
            lambda: self.buffered_bytes
        )
        self.tail_cache_bytes = Gauge("tidelog_tail_cache_bytes", "Bytes of cached recent records.", registry=registry)
        self.topics_loaded = Gauge("tidelog_topics_loaded", "Topics whose state is in memory.", registry=registry)
        self.manifest_bytes = Gauge(
            "tidelog_manifest_bytes", "Bytes of memory used by the manifests of loaded topics.", registry=registry
        )
        self.manifest_bytes_max = Gauge(
            "tidelog_manifest_bytes_limit",
            "Limit of tidelog_manifest_bytes; above it appends are refused.",
            registry=registry,
        )
        self.manifest_refusals = Counter(
            "tidelog_manifest_refusals", "Requests refused because manifests exceed their limit.", registry=registry
        )
        self._make_state(registry)
        self._make_journals(registry)
        self.topics_behind = Gauge(
            "tidelog_topics_behind_maintenance",
            "Loaded topics with more segments than maintenance normally leaves.",
            registry=registry,
        )
        self.foreign_commits = Counter(
            "tidelog_foreign_commits",
            "Commits by other programs to topics' tables; they are ignored and reverted.",
            registry=registry,
        )
        self.waiting_polls = Gauge("tidelog_waiting_polls", "Open long polls and event streams.", registry=registry)

    def _make_journals(self, registry: CollectorRegistry) -> None:
        self.topic_moves = Counter(
            "tidelog_topic_moves",
            "Topics moved between own commits and a journal by this gateway, by destination.",
            ("to",),
            registry=registry,
        )
        self.drains = Counter("tidelog_drains", "Drains of a topic from its journal.", registry=registry)
        self.drain_failures = Counter("tidelog_drain_failures", "Failed drains; they are retried.", registry=registry)
        self.journal_flush_bytes = Histogram(
            "tidelog_journal_flush_bytes",
            "Bytes in memory of the records of a journal's flush; also counted in tidelog_flush_bytes.",
            buckets=_BYTES,
            registry=registry,
        )
        self.journal_flush_topics = Histogram(
            "tidelog_journal_flush_topics",
            "Topics with records in one flush of a journal.",
            buckets=_BATCHES,
            registry=registry,
        )
        of_journal = ("journal",)
        self.journal_topics = Gauge("tidelog_journal_topics", "Topics at the journal.", of_journal, registry=registry)
        self.undrained_records = Gauge(
            "tidelog_journal_undrained_records",
            "Records at the journal that are not yet in their topics' tables.",
            of_journal,
            registry=registry,
        )
        self.undrained_bytes = Gauge(
            "tidelog_journal_undrained_bytes", "Stored bytes of undrained records.", of_journal, registry=registry
        )
        self.undrained_seconds = Gauge(
            "tidelog_journal_undrained_seconds", "Age of the oldest undrained record.", of_journal, registry=registry
        )
        self.overdue_seconds = Gauge(
            "tidelog_journal_overdue_seconds",
            "Largest delay of a topic's drain beyond its drain.ms.",
            of_journal,
            registry=registry,
        )

    def _make_state(self, registry: CollectorRegistry) -> None:
        self.state_bytes = Gauge(
            "tidelog_state_bytes",
            "Bytes of memory used by the state of topics, groups and transactions, by kind.",
            ("of",),
            registry=registry,
        )
        self.state_bytes_max = Gauge(
            "tidelog_state_bytes_limit",
            "Limit of tidelog_state_bytes; above it requests that would add state are refused.",
            ("of",),
            registry=registry,
        )
        self.state_refusals = Counter(
            "tidelog_state_refusals",
            "Requests refused because the state exceeds its limit.",
            ("of",),
            registry=registry,
        )
