"""Watch for topics without maintenance: they have more segments than maintenance would ever leave.

Such a topic stays correct. It loads more slowly, takes more memory, and Spark plans longer over it. The watch only logs and
counts such topics.
"""

from __future__ import annotations

import logging
from typing import Final
from weakref import WeakKeyDictionary

from gateway.engine.metrics import EngineMetrics
from log_format.clock import Clock
from log_format.topic.state import TopicState

WARNING_REPEAT_MS: Final = 3_600_000
"""Interval at which the log repeats the warning for one topic."""

_log = logging.getLogger("gateway.maintenance")


class MaintenanceWatch:
    """Topics that are behind with maintenance. A topic is dropped when the gateway drops it. Used on the event loop only."""

    def __init__(self, clock: Clock, metrics: EngineMetrics, *, segments_behind: int) -> None:
        self._clock = clock
        self._segments_behind = segments_behind
        self._behind: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        """Monotonic time of the last warning, by the topic's object."""
        metrics.topics_behind.set_function(lambda: len(self._behind))

    def consider(self, topic: object, state: TopicState) -> None:
        """Judge whether the topic's new state has too many segments. ``topic``: any object that lives as long as the topic is
        open. O(1)."""
        count = state.manifest.segment_count()
        if count < self._segments_behind:
            if self._behind:
                self._behind.pop(topic, None)
            return
        now_ms = self._clock.monotonic_ms()
        warned_ms = self._behind.get(topic)
        if warned_ms is None or now_ms - warned_ms >= WARNING_REPEAT_MS:
            self._behind[topic] = now_ms
            _log.warning("topic %s has %d segments: is maintenance running? (tidelog maintain)", state.topic, count)
