"""The last hour of this gateway, a point every ten seconds, in memory: 360 points of a few numbers each.

A gateway that starts knows nothing of the time before. A point has rates since the previous point; if the process could not
take points in time (its machine was suspended), the next point covers what it missed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry

from gateway.monitoring import metrics_reading
from gateway.monitoring.metrics_reading import MetricsReading, quantile_ms, read
from gateway.tasks.supervised import run_supervised
from log_format.clock import Clock

INTERVAL_MS: Final = 10_000
POINTS_MAX: Final = 360


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Rates a second since the previous point, up to ``at_ms``; latencies are None if nothing was committed."""

    at_ms: int
    produced_records: float
    produced_bytes: float
    fetched_records: float
    sent_bytes: float
    commit_p50_ms: float | None
    commit_p99_ms: float | None
    acknowledgement_p50_ms: float | None
    acknowledgement_p99_ms: float | None


class Activity:
    """Points of this gateway. Used on the event loop only. Call ``start`` once the gateway serves."""

    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._last = read(registry, clock.now_ms())
        self._points: deque[Point] = deque(maxlen=POINTS_MAX)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to take a point every ``INTERVAL_MS``."""
        self._running = asyncio.create_task(run_supervised(self._round, "the hour's activity"))

    async def stop(self) -> None:
        """Stop taking points. Idempotent."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))

    @property
    def points(self) -> Sequence[Point]:
        """Points of the last hour, oldest first."""
        return tuple(self._points)

    def take_point(self) -> None:
        """Take a point. If the clock went back, only remember the reading."""
        before, now = self._last, read(self._registry, self._clock.now_ms())
        self._last = now
        if now.at_ms > before.at_ms:
            self._points.append(_point(before, now))

    async def _round(self) -> None:
        await asyncio.sleep(INTERVAL_MS / 1000)
        self.take_point()


def _point(before: MetricsReading, now: MetricsReading) -> Point:
    seconds = (now.at_ms - before.at_ms) / 1000

    def rate(name: str) -> float:
        return max(0.0, now.total(name) - before.total(name)) / seconds

    def latency(name: str, share: float) -> float | None:
        return quantile_ms(before.buckets.get(name, ()), now.buckets.get(name, ()), share)

    return Point(
        at_ms=now.at_ms,
        produced_records=rate(metrics_reading.PRODUCED_RECORDS),
        produced_bytes=rate(metrics_reading.PRODUCED_BYTES),
        fetched_records=rate(metrics_reading.FETCHED_RECORDS),
        sent_bytes=rate(metrics_reading.SENT_BYTES),
        commit_p50_ms=latency(metrics_reading.COMMIT_BUCKETS, 0.5),
        commit_p99_ms=latency(metrics_reading.COMMIT_BUCKETS, 0.99),
        acknowledgement_p50_ms=latency(metrics_reading.ACKNOWLEDGEMENT_BUCKETS, 0.5),
        acknowledgement_p99_ms=latency(metrics_reading.ACKNOWLEDGEMENT_BUCKETS, 0.99),
    )
