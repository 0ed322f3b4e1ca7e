"""What maintenance has done, as Prometheus has it: ``--metrics-port``. No label names a topic: their number is not bounded.

Rewrites count as they are committed, since the first round over a store without maintenance takes long; all else counts at
the end of its round. Names begin with ``tidelog_maintenance_``; the gateway's ``tidelog_topics_behind_maintenance`` and
``tidelog_manifest_…`` say the same from the other side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from compaction.report import Reporter
from log_format.clock import Clock

_SECONDS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
_OF_REWRITES: Final = ("segments_in", "segments_out", "bytes_in", "bytes_out")
_OF_ROUNDS: Final = ("failed_topics", "expired_segments", "checkpoints", "deleted_objects", "deleted_bytes")


class Metrics:
    """One registry of one process. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._rounds = self._counter("rounds", "Rounds over all topics that have ended.", ("outcome",))
        self._round_seconds = Histogram(
            "tidelog_maintenance_round_seconds", "How long a round took.", buckets=_SECONDS, registry=self.registry
        )
        self._rewrites = self._counter("rewrites", "Merges and other rewrites, by what became of them.", ("outcome",))
        self._counters = {
            "segments_in": self._counter("read_segments", "Segments that were replaced by others."),
            "segments_out": self._counter("written_segments", "Segments that took their place."),
            "bytes_in": self._counter("read_bytes", "Stored bytes of the segments that were replaced."),
            "bytes_out": self._counter("written_bytes", "Stored bytes of the segments that took their place."),
            "failed_topics": self._counter("failed_topics", "Topics that could not be looked after, once a round."),
            "expired_segments": self._counter("expired_segments", "Segments that retention let go of."),
            "checkpoints": self._counter("checkpoints", "Checkpoints written."),
            "deleted_objects": self._counter("deleted_objects", "Objects deleted for good."),
            "deleted_bytes": self._counter("deleted_bytes", "Bytes of these objects."),
        }
        self._topics = self._gauge("topics", "Topics of the last round.")
        self._waiting_segments = self._gauge(
            "waiting_segments", "Flushed segments that were not merged yet when the last round ended."
        )
        self._waiting_bytes = self._gauge("waiting_bytes", "Stored bytes of these segments.")
        self._succeeded_at = self._gauge(
            "last_success_timestamp_seconds",
            "When a round ended in which no topic failed, since the epoch; until there was one, when this process began.",
        )
        self._succeeded_at.set(clock.now_ms() / 1000)

    def note(self, event: str, fields: dict[str, str | float]) -> None:
        """Count what a ``Reporter`` is told."""
        if event == "rewrite":
            self._rewrites.labels(fields["outcome"]).inc()
            if fields["outcome"] == "committed":
                self._count(_OF_REWRITES, fields)
        elif event == "round":
            self._count(_OF_ROUNDS, fields)
            self._round_seconds.observe(float(fields["ms"]) / 1000)
            self._topics.set(float(fields["topics"]))
            self._waiting_segments.set(float(fields["waiting_segments"]))
            self._waiting_bytes.set(float(fields["waiting_bytes"]))
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
    """Another reporter, and metrics of what it is told."""

    def __init__(self, report: Reporter, metrics: Metrics) -> None:
        self._report = report
        self._metrics = metrics

    def event(self, event: str, **fields: str | float) -> None:
        """Note it in both."""
        self._report.event(event, **fields)
        self._metrics.note(event, fields)


def serve(report: Reporter, clock: Clock, *, host: str, port: int) -> AbstractContextManager[Reporter]:
    """``report``, counted, with ``GET /metrics`` on ``host``:``port`` (0: any free one; it is reported) until the exit.

    Raises ``ValueError`` when nothing can listen there.
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
