"""Time that topics wait for their drain, also if the clock of the gateway that appended to them is ahead of this one's."""

from __future__ import annotations

import logging
from typing import Final

from log_format.journal.topics import JournalTopic

SKEW_WARNED_MS: Final = 60_000
"""Skew of a clock above which the log says so: gateways of one store should have the same time within a second."""

_log = logging.getLogger("gateway.journal")


class FutureTimes:
    """Monotonic time at which each time in the future was first seen. Holds the topics of two rounds at most."""

    def __init__(self, *, tells: bool = True) -> None:
        """Begin without times. ``tells``: whether a clock that is far ahead is logged."""
        self._tells = tells
        self._seen: dict[tuple[str, int], int] = {}
        self._last: dict[tuple[str, int], int] = {}

    def begin(self) -> None:
        """Begin a round: drop the times that nobody asked for in the previous round."""
        self._last, self._seen = self._seen, {}

    def age_ms(self, topic: JournalTopic, now_ms: int, monotonic_ms: int) -> int | None:
        """Return how long the topic's oldest undrained record has waited, at least 0; None if it has no undrained record."""
        since_ms = topic.undrained_since_ms
        if since_ms is None:
            return None
        if since_ms <= now_ms:
            return now_ms - since_ms
        key = (topic.topic_id, since_ms)
        seen_ms = self._last.get(key)
        if self._tells and seen_ms is None and since_ms - now_ms > SKEW_WARNED_MS:
            _log.warning(
                "the clock of a gateway that appended to topic %s is %d s ahead of this one's: set both by a time service",
                topic.name,
                (since_ms - now_ms) // 1000,
            )
        self._seen[key] = monotonic_ms if seen_ms is None else seen_ms
        return monotonic_ms - self._seen[key]
