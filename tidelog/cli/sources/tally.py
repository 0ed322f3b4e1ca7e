"""Outcomes of the records that a command sent, in the order of its input."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from log_format.errors import TidelogError
from tidelog.cli.sources.lines import Place
from tidelog.types.record import PartitionRange, ProduceResult, RecordMetadata

_SHOWN_EVERY_S: Final = 0.1


class Tally:
    """Counts, offsets by partition, the first error and its line of input, and how far the input is stored without a gap.

    ``show`` is called with the count now and then. For one thread.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.count = 0
        self.scheduled_count = 0
        """Number of delayed records among ``count``, which have no offset yet."""
        self.dead_letter_count = 0
        """Number of records that went to the topic's dead letters; ``count`` leaves them out."""
        self.failed_count = 0
        self.first_error: TidelogError | None = None
        self.failed_at: Place | None = None
        self.stored_through: Place | None = None
        """Place up to which every record of the input is acknowledged."""
        self.show: Callable[[int], object] = lambda _count: None
        self._shown_at = 0.0
        self._stored: dict[int, list[int]] = {}

    def store(self, stored: ProduceResult, last: Place) -> None:
        """Record acknowledged records; ``last`` is the input place of the last one."""
        self._schedule(len(stored.scheduled))
        self.dead_letter_count += len(stored.dead_letters)
        for each in stored.partitions:
            self._add(each.partition, each.base_offset, each.last_offset, each.count)
        self._reach(last)

    def store_one(self, stored: RecordMetadata, place: Place) -> None:
        """Record one acknowledged record, as ``store``."""
        if stored.dead_letter_reason is not None:
            self.dead_letter_count += 1
        elif stored.scheduled_id is None:
            self._add(stored.partition, stored.offset, stored.offset, 1)
        else:
            self._schedule(1)
        self._reach(place)

    def fail(self, error: TidelogError, place: Place, count: int = 1) -> None:
        """Record that ``count`` records, the first of them at ``place``, were not acknowledged."""
        self.failed_count += count
        if self.first_error is None:
            self.first_error, self.failed_at = error, place

    def ranges(self) -> list[PartitionRange]:
        """Return first and last offset and count of each partition; other clients may have written in between."""
        return [PartitionRange(partition, *self._stored[partition]) for partition in sorted(self._stored)]

    def _schedule(self, count: int) -> None:
        self.count += count
        self.scheduled_count += count

    def _add(self, partition: int, base_offset: int, last_offset: int, count: int) -> None:
        known = self._stored.setdefault(partition, [base_offset, last_offset, 0])
        known[1] = last_offset
        known[2] += count
        self.count += count

    def _reach(self, last: Place) -> None:
        if self.first_error is None:
            self.stored_through = last
        now = time.monotonic()
        if now - self._shown_at > _SHOWN_EVERY_S:
            self._shown_at = now
            self.show(self.count)
