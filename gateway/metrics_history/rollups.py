"""Minutes, quarter-hours and hours of one gateway that are not yet written.

1. A minute is written once. The quarter-hour and the hour that it belongs to are written with it, as far as they have come: the
   record with the same key that comes last is the valid one, and key compaction removes the others. So a killed gateway loses
   the minutes since its last write, and no more of the coarser intervals.
2. A span in which nothing happened is one interval of its own, whatever its length: added to a busy quarter-hour it would thin
   that out.
3. At most ``WAITING_MAX`` records wait while the store fails; the oldest go first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.metrics_history.interval import Interval, added

MINUTE_MS: Final = 60_000
RESOLUTIONS_MS: Final = (MINUTE_MS, 15 * MINUTE_MS, 60 * MINUTE_MS)
"""Lengths of intervals; the position in this list is the partition of the topic."""
WAITING_MAX: Final = 720


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """An interval to be written; ``partition``: of the topic, by its resolution."""

    partition: int
    interval: Interval

    @property
    def key(self) -> bytes:
        """Identity of the interval, which stays the same while it grows: gateway, process and start."""
        return f"{self.interval.gateway}/{self.interval.run}/{self.interval.start}".encode()


class Rollups:
    """The intervals that wait."""

    def __init__(self) -> None:
        self._waiting: deque[Rollup] = deque(maxlen=WAITING_MAX)
        self._open: dict[int, Interval] = {}
        """The interval under way, by partition."""
        self._changed = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting and not self._changed

    def add(self, interval: Interval) -> None:
        """Add a minute, or a longer span in which nothing happened."""
        self._waiting.append(Rollup(partition=0, interval=interval))
        for partition, length_ms in enumerate(RESOLUTIONS_MS[1:], 1):
            if interval.end - interval.start > length_ms:
                self._close(partition)
                self._waiting.append(Rollup(partition=partition, interval=interval))
                continue
            known = self._open.get(partition)
            if known is not None and _place(known, length_ms) == _place(interval, length_ms):
                self._open[partition] = added(known, interval)
            else:
                self._close(partition)
                self._open[partition] = interval
            self._changed = True

    def take(self) -> Sequence[Rollup]:
        """Return all that waits, and the intervals under way as far as they have come."""
        taken = [*self._waiting]
        if self._changed:
            taken += [Rollup(partition=partition, interval=interval) for partition, interval in self._open.items()]
        self._waiting.clear()
        self._changed = False
        return taken

    def _close(self, partition: int) -> None:
        if (ended := self._open.pop(partition, None)) is not None:
            self._waiting.append(Rollup(partition=partition, interval=ended))


def _place(interval: Interval, length_ms: int) -> int:
    """Return the start of the grid's cell in which the interval ends."""
    return (interval.end - 1) // length_ms * length_ms
