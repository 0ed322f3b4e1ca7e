"""Budget for the memory of all loaded topics' manifests: past it nothing is appended until maintenance has caught up.

A segment costs memory in every gateway that has its topic open, until maintenance merges it. Without maintenance each flush
adds one, so:

1. Idle topics are dropped before a request is refused (``registry``).
2. A topic whose manifest takes ``ONE_TOPIC_SHARE`` of the budget accepts no more records. No topic does while all manifests
   together take more than the budget. The refusal is temporary: 503 ``OVERLOADED``, nothing happened.
3. Only appending is refused. Reading, deleting records, deleting a topic, and finishing decided transactions go on. Once
   manifests are smaller, by this process or another, appending goes on: no restart, no switch.

Appends through other gateways can't be refused here. A topic is loaded whatever its size, so that it can be read and repaired.
So give all gateways of a store the same budget.

Used on the event loop only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from gateway.engine.metrics import EngineMetrics
from gateway.problem import overloaded
from log_format.clock import Clock
from log_format.errors import BackOff
from log_format.topic.state import TopicState

ONE_TOPIC_SHARE: Final = 0.75
"""Share of the budget that one topic's manifest may take: a topic without maintenance leaves room for those that have it."""

WARNING_REPEAT_MS: Final = 60_000
"""Interval at which the log repeats that records are refused."""

_MEBIBYTE: Final = 1024 * 1024
_log = logging.getLogger("gateway.maintenance")


@dataclass(slots=True)
class _Held:
    total_bytes: int = 0
    manifest_bytes: int = 0


class ManifestBudget:
    """Bytes of all manifests, by topic, and their maximum."""

    def __init__(self, bytes_max: int, clock: Clock, metrics: EngineMetrics) -> None:
        self.bytes_max = bytes_max
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._used_bytes = 0
        self._total_bytes = 0
        self._warned_ms: int | None = None
        self._refusals = metrics.manifest_refusals
        metrics.manifest_bytes.set_function(lambda: self._used_bytes)
        metrics.manifest_bytes_max.set(bytes_max)
        metrics.state_bytes.labels("topics").set_function(lambda: self._total_bytes)
        metrics.state_bytes_max.labels("topics").set(bytes_max)

    @property
    def used_bytes(self) -> int:
        """Bytes of memory of all manifests."""
        return self._used_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of memory of all that is known of the open topics: manifests, partitions, producers and the rest."""
        return self._total_bytes

    def open(self, topic: str) -> None:
        """Count the topic's memory from now on."""
        self._held.setdefault(topic, _Held())

    def set_bytes(self, topic: str, *, total_bytes: int, manifest_bytes: int) -> None:
        """Set the bytes that the topic takes now. Topics that are not open are not counted."""
        held = self._held.get(topic)
        if held is not None:
            self._used_bytes += manifest_bytes - held.manifest_bytes
            self._total_bytes += total_bytes - held.total_bytes
            held.manifest_bytes, held.total_bytes = manifest_bytes, total_bytes

    def release(self, topic: str) -> None:
        """Stop counting the topic, which is not in memory any more."""
        self.set_bytes(topic, total_bytes=0, manifest_bytes=0)
        self._held.pop(topic, None)

    def is_exceeded(self, topic: str) -> bool:
        """Return whether the topic accepts no appends."""
        return self._used_bytes > self.bytes_max or self._held_by(topic) > self.bytes_max * ONE_TOPIC_SHARE

    def refusal(self, state: TopicState) -> BackOff:
        """Return the refusal for a request that would append, and log it at most every ``WARNING_REPEAT_MS``."""
        self._refusals.inc()
        own_mib = self._held_by(state.topic) / _MEBIBYTE
        what = (
            f"its {state.manifest.segment_count()} segments take {own_mib:.0f} MiB of the gateway's memory, those of all topics "
            f"{self._used_bytes / _MEBIBYTE:.0f} of {self.bytes_max / _MEBIBYTE:.0f} MiB"
        )
        now_ms = self._clock.monotonic_ms()
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_REPEAT_MS:
            self._warned_ms = now_ms
            _log.error("records of topic %s are refused: %s; run tidelog maintain", state.topic, what)
        return overloaded(
            f"Maintenance is behind: topic {state.topic!r} accepts no records for now, since {what}. "
            "Run `tidelog maintain`, which merges segments. Nothing was stored."
        )

    def _held_by(self, topic: str) -> int:
        held = self._held.get(topic)
        return 0 if held is None else held.manifest_bytes
