"""Takes the minutes of this gateway and appends them to ``__metrics``.

1. At most one commit in ``WRITE_MINUTES`` minutes: two PUTs, 24 an hour. The topic has commits of its own.
2. Nothing is written while nothing happens: no record was appended or read, no flush failed, the store failed no call, and no lag
   has changed. What the history itself appends and reads does not count. The minutes without events become one interval, written
   with the next event. A gateway that has had no event has not even created the topic.
3. A gateway that ends within its first ``WRITE_MINUTES`` minutes leaves nothing. One that ends later writes what waits.
4. While the store fails, intervals wait, within a bound; a batch is repeated under its stamp.
5. Gateways write at different seconds of a minute, so that their commits do not conflict.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from gateway.engine.own_topic import OwnRecord, OwnTopic
from gateway.metrics_history.interval import (
    LAG_RECORDS,
    LOOP_DELAY,
    SAMPLED,
    STORED,
    Interval,
    interval_between,
)
from gateway.metrics_history.loop_delay import LoopDelay
from gateway.metrics_history.rollups import MINUTE_MS, Rollups
from gateway.metrics_history.topic import record_of
from gateway.monitoring.samples import Samples, take_samples
from gateway.tasks.supervised import run_supervised
from log_format.clock import Clock
from log_format.errors import StoreError, TidelogError

WRITE_MINUTES: Final = 5
"""Minutes between two writes: what a killed gateway loses at most."""
WRITE_SPREAD_MS: Final = 40_000
"""Span of a minute over which gateways spread their writes."""
LAST_WRITE_MS_MAX: Final = 2_000
"""Time that a gateway that shuts down tries to write what waits."""
_EVENTS: Final = ("produced_records", "fetched_records", "failed_flushes", "store_errors")

_log = logging.getLogger("gateway.metrics_history")


class MetricsRecorder:
    """The recorder. ``measure`` brings the lag in the registry up to date; ``stored_bytes`` sums up the topics that this gateway
    owns. Used on the event loop only."""

    def __init__(
        self,
        gateway_id: str,
        topic: OwnTopic,
        registry: CollectorRegistry,
        *,
        clock: Clock,
        measure: Callable[[], Awaitable[None]],
        stored_bytes: Callable[[], Awaitable[int]],
    ) -> None:
        self._gateway = gateway_id
        self._topic = topic
        self._registry = registry
        self._clock = clock
        self._measure = measure
        self._stored_bytes = stored_bytes
        self._run = clock.now_ms()
        self._written_up_to = self._sample()
        """Where the next interval begins."""
        self._last = self._written_up_to
        """The last minute's samples; later than ``_written_up_to`` while nothing happens."""
        self._minute_count = 0
        self._waiting = Rollups()
        self._batch: list[OwnRecord] = []
        """The batch in progress: after an error it is appended again as it is."""
        self._own_read_count = 0
        self._own_count = (0, 0)
        """Own records appended and read up to the last interval."""
        self._own_appended_count = 0
        self._failing = False
        self.loop_delay = LoopDelay()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Take minutes from now on."""
        self.loop_delay.start()
        self._running = asyncio.create_task(run_supervised(self._round, "the history of metrics"))

    async def stop(self) -> None:
        """Write what waits, for at most ``LAST_WRITE_MS_MAX``, unless the gateway has not run for long. Idempotent."""
        running, self._running = self._running, None
        if running is None:
            return
        self.loop_delay.stop()
        running.cancel()
        await asyncio.wait((running,))
        if self._minute_count >= WRITE_MINUTES:
            self.take_interval()
            try:
                async with asyncio.timeout(LAST_WRITE_MS_MAX / 1000):
                    await self.write()
            except TimeoutError:
                _log.warning("the last minutes of the history of metrics are lost: the store takes too long")

    def count_own_reads(self, record_count: int) -> None:
        """Count records that a reader of the history has read: they are no event."""
        self._own_read_count += record_count

    async def minute(self) -> None:
        """Take a minute; in each ``WRITE_MINUTES``th bring lag and sizes up to date first. Raises nothing."""
        self._minute_count += 1
        if self.is_due:
            await self._measure()
        self.take_interval(await self._stored_bytes() if self.is_due else None)

    @property
    def is_due(self) -> bool:
        """Whether what waits is to be written after this minute."""
        return self._minute_count % WRITE_MINUTES == 0

    def take_interval(self, stored_bytes: int | None = None) -> None:
        """Take the interval since the last one, unless nothing has happened in it."""
        now = self._sample()
        if now.at_ms <= self._last.at_ms:  # the clock went back
            self._written_up_to = self._last = now
            return
        latest = self._between(self._last, now)
        own = (self._own_appended_count, self._own_read_count)
        appended, read = own[0] - self._own_count[0], own[1] - self._own_count[1]
        self._own_count = own
        _take_off(latest.counts, "produced_records", appended)
        _take_off(latest.counts, "fetched_records", read)
        latest.levels[LOOP_DELAY] = round(self.loop_delay.take_largest_ms(), 1)
        if stored_bytes is not None:
            latest.levels[STORED] = stored_bytes
        if any(latest.counts.get(name) for name in _EVENTS) or _lags(self._last) != _lags(now):
            if self._written_up_to is not self._last:
                quiet = self._between(self._written_up_to, self._last)
                counts = {name: count for name, count in quiet.counts.items() if name not in _EVENTS}
                self._waiting.add(msgspec.structs.replace(quiet, counts=counts))
            self._waiting.add(latest)
            self._written_up_to = now
        self._last = now

    async def write(self) -> None:
        """Append all that waits, in one commit. A failure is logged, and the batch waits for the next call."""
        try:
            while self._batch or not self._waiting.is_empty:
                self._batch = self._batch or [record_of(rollup) for rollup in self._waiting.take()]
                if await self._topic.append(self._batch):
                    self._own_appended_count += len(self._batch)
                self._batch = []
        except (TidelogError, StoreError) as error:
            if not self._failing:
                _log.warning("the history of metrics can't be written, and waits: %s", error)
            self._failing = True
            return
        self._failing = False

    async def _round(self) -> None:
        await asyncio.sleep((MINUTE_MS - self._clock.now_ms() % MINUTE_MS) / 1000)
        await self.minute()
        if self.is_due:
            await asyncio.sleep(zlib.crc32(self._gateway.encode()) % WRITE_SPREAD_MS / 1000)
            await self.write()

    def _between(self, before: Samples, now: Samples) -> Interval:
        return interval_between(before, now, gateway=self._gateway, run=self._run)

    def _sample(self) -> Samples:
        return take_samples(self._registry, SAMPLED, self._clock.now_ms())


def _lags(samples: Samples) -> list[tuple[str, str, float]]:
    return sorted((labels["group"], labels["topic"], value) for labels, value in samples.of(LAG_RECORDS))


def _take_off(counts: dict[str, float], name: str, own_count: int) -> None:
    if (count := counts.pop(name, 0) - own_count) > 0:
        counts[name] = count
