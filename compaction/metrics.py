"""Prometheus metrics of maintenance: ``--metrics-port``. No label names a topic, since the number of topics is not limited.

Rewrites count as they are committed, since a first round over a large backlog takes long. Everything else counts at the end of
its round. Names begin with ``tidelog_maintenance_``. The gateway's ``tidelog_topics_behind_maintenance`` and
``tidelog_manifest_…`` show the same backlog.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from compaction.report import Reporter
from log_format.clock import Clock

_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_REWRITE_COUNTERS: Final = ("segments_in", "segments_out", "bytes_in", "bytes_out")
_ROUND_COUNTERS: Final = (
    "failed_topics",
    "expired_segments",
    "checkpoints",
    "drains",
    "failed_drains",
    "deleted_objects",
    "deleted_bytes",
)


class Metrics:
    """The metrics registry of one process. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._rounds = self._counter("rounds", "Rounds over all topics that have ended.", ("outcome",))
        self._round_seconds = Histogram(
            "tidelog_maintenance_round_seconds", "How long a round took.", buckets=_SECONDS, registry=self.registry
        )
        self._rewrites = self._counter("rewrites", "Merges and other rewrites, by outcome.", ("outcome",))
        self._counters = {
            "segments_in": self._counter("read_segments", "Segments that were replaced by others."),
            "segments_out": self._counter("written_segments", "Segments that replaced them."),
            "bytes_in": self._counter("read_bytes", "Stored bytes of the segments that were replaced."),
            "bytes_out": self._counter("written_bytes", "Stored bytes of the segments that replaced them."),
            "failed_topics": self._counter("failed_topics", "Topics whose maintenance failed, once a round."),
            "expired_segments": self._counter("expired_segments", "Segments that retention removed."),
            "checkpoints": self._counter("checkpoints", "Checkpoints written."),
            "drains": self._counter("drains", "Topics drained from a journal since no gateway had, once a round."),
            "failed_drains": self._counter("failed_drains", "Topics for which that failed."),
            "deleted_objects": self._counter("deleted_objects", "Objects deleted for good."),
            "deleted_bytes": self._counter("deleted_bytes", "Bytes of these objects."),
        }
        self._topics = self._gauge("topics", "Topics of the last round.")
        self._waiting_segments = self._gauge(
            "waiting_segments", "Flushed segments that were not merged yet when the last round ended."
        )
        self._waiting_bytes = self._gauge("waiting_bytes", "Stored bytes of these segments.")
        self._untyped_segments = self._gauge(
            "untyped_segments",
            "Segments that topics with data.backfill still had without columns when the last round ended.",
        )
        self._untyped_bytes = self._gauge("untyped_bytes", "Stored bytes of these segments.")
        self._pins = self._gauge("pins", "Pinned versions of topics when the last round ended.")
        self._pinned_bytes = self._gauge("pinned_bytes", "Stored bytes of files that only these pins kept.")
        self._succeeded_at = self._gauge(
            "last_success_timestamp_seconds",
            "When the last round without a failed topic ended, since the epoch; before the first, when this process began.",
        )
        self._succeeded_at.set(clock.now_ms() / 1000)

    def note(self, event: str, fields: dict[str, str | float]) -> None:
        """Count an event of a ``Reporter``."""
        if event == "rewrite":
            self._rewrites.labels(fields["outcome"]).inc()
            if fields["outcome"] == "committed":
                self._count(_REWRITE_COUNTERS, fields)
        elif event == "round":
            self._count(_ROUND_COUNTERS, fields)
            self._round_seconds.observe(float(fields["ms"]) / 1000)
            self._topics.set(float(fields["topics"]))
            self._waiting_segments.set(float(fields["waiting_segments"]))
            self._waiting_bytes.set(float(fields["waiting_bytes"]))
            self._untyped_segments.set(float(fields["untyped_segments"]))
            self._untyped_bytes.set(float(fields["untyped_bytes"]))
            self._pins.set(float(fields["pins"]))
            self._pinned_bytes.set(float(fields["pinned_bytes"]))
            self._rounds.labels("failed" if fields["failed_topics"] else "succeeded").inc()
            if not fields["failed_topics"]:
                self._succeeded_at.set(self._clock.now_ms() / 1000)

    def _count(self, names: tuple[str, ...], fields: dict[str, str | float]) -> None:
        for name in names:
            self._counters[name].inc(float(fields[name]))

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"tidelog_maintenance_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"tidelog_maintenance_{name}", text, registry=self.registry)


class CountingReporter:
    """A reporter that forwards events to another one, and counts them."""

    def __init__(self, report: Reporter, metrics: Metrics) -> None:
        self._report = report
        self._metrics = metrics

    def event(self, event: str, **fields: str | float) -> None:
        """Forward and count the event."""
        self._report.event(event, **fields)
        self._metrics.note(event, fields)


def serve(report: Reporter, clock: Clock, *, host: str, port: int) -> AbstractContextManager[Reporter]:
    """Serve metrics at ``GET /metrics`` on ``host``:``port``, and return a context manager of a counting reporter around
    ``report``.

    Port 0 stands for a free port, which is reported. The server stops when the context ends. Raises ``ValueError`` if nothing can
    listen there.
    """
    metrics = Metrics(clock)
    try:
        server, thread = start_http_server(port, addr=host, registry=metrics.registry)
    except OSError as error:
        raise ValueError(f"metrics can't be served on {host}:{port}: {error.strerror or error}") from error
    report.event("metrics", url=f"http://{host}:{server.server_port}/metrics")

    @contextmanager
    def serving() -> Iterator[Reporter]:
        try:
            yield CountingReporter(report, metrics)
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    return serving()
