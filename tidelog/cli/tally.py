"""What became of the records that a command sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from log_format.errors import TidelogError
from tidelog.record import PartitionRange, SentRecord

_SHOWN_EVERY_S: Final = 0.1


class Tally:
    """Counts, offsets by partition, and the first error. ``show`` is told the count now and then. Safe from any thread."""

    def __init__(self, topic: str, show: Callable[[int], None]) -> None:
        self.topic = topic
        self.count = 0
        self.failed_count = 0
        self.first_error: TidelogError | None = None
        self._show = show
        self._shown_at = 0.0
        self._stored: dict[int, PartitionRange] = {}
        self._lock = threading.Lock()

    def add(self, stored: PartitionRange) -> None:
        """These were acknowledged."""
        with self._lock:
            known = self._stored.get(stored.partition)
            base_offset = stored.base_offset if known is None else known.base_offset
            count = stored.count if known is None else known.count + stored.count
            self._stored[stored.partition] = PartitionRange(stored.partition, base_offset, stored.last_offset, count)
            self.count += stored.count
        now = time.monotonic()
        if now - self._shown_at > _SHOWN_EVERY_S:
            self._shown_at = now
            self._show(self.count)

    def deliver(self, error: TidelogError | None, record: SentRecord) -> None:
        """The producer's ``on_delivery``."""
        if error is None and record.partition is not None and record.offset is not None:
            self.add(PartitionRange(record.partition, record.offset, record.offset, 1))
        elif error is not None:
            with self._lock:
                self.failed_count += 1
                self.first_error = self.first_error or error

    def ranges(self) -> list[PartitionRange]:
        """First and last offset and count of each partition; others may have written in between."""
        return [self._stored[partition] for partition in sorted(self._stored)]
