"""Warnings about records that retention removes in its next round, mostly of producers that send seconds for milliseconds.

Such records are accepted, as in Kafka. A batch counts when both its first and its last record are too old, so the others need
not be looked at.
"""

from __future__ import annotations

import logging
from typing import Final

from gateway.engine.metrics import EngineMetrics
from log_format.topic.batch import Batch
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.topic")

WARNING_REPEAT_MS: Final = 60_000
"""Interval between two warnings in the log: there may be thousands of such topics."""


class ExpiredOnArrival:
    """Count and warnings of one gateway. Used on the event loop only."""

    def __init__(self, metrics: EngineMetrics) -> None:
        self._metrics = metrics
        self._warned_ms: int | None = None

    def check(self, batch: Batch, state: TopicState, now_ms: int) -> None:
        """Count the batch if it is too old for its topic, and log a warning that names the topic, at most every
        ``WARNING_REPEAT_MS``."""
        config = state.config
        retention_ms = config.integer("retention.ms")
        if retention_ms < 0 or not config.deletes_old:
            return
        if config.choice("message.timestamp.type") == "LogAppendTime":
            return
        newest_ms = batch.newest_ms
        if newest_ms is None or newest_ms >= now_ms - retention_ms:
            return
        self._metrics.expired_records.inc(sum(count for _, count in batch.counts))
        if self._warned_ms is None or now_ms - self._warned_ms >= WARNING_REPEAT_MS:
            self._warned_ms = now_ms
            _log.warning(
                "records of topic %s have expired as they come: timestamp %d, retention.ms %d. Maintenance will remove them. "
                "Are they seconds?",
                state.topic,
                newest_ms,
                retention_ms,
            )
