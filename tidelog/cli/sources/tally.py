"""Outcomes of the records that a command sent, in the order of its input."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from log_format.errors import TidelogError
from tidelog.cli.sources.lines import Place
from tidelog.types.record import PartitionRange, ProduceResult, RecordMetadata

_SHOWN_EVERY_S: Final = 0.1


class Failure(Enum):
    """What is known of a record that is not acknowledged."""

    REFUSED = auto()
    """A gateway refused it, or the request that it was in. It is not stored."""
    NOT_TAKEN = auto()
    """No gateway took it in time. It is not stored."""
    UNKNOWN = auto()
    """It may be stored or not."""

    @classmethod
    def of(cls, error: TidelogError) -> Failure:
        """Return what an error says."""
        if error.may_have_happened:
            return cls.UNKNOWN
        return cls.NOT_TAKEN if error.retryable else cls.REFUSED


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
        self.dead_letter_reason = ""
        """Reason for the first of them, with its place if that is known."""
        self.failures: Counter[Failure] = Counter()
        """Number of records that are not acknowledged, by what is known of them."""
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
        for letter in stored.dead_letters:
            self._bury(letter.reason)
        for each in stored.partitions:
            self._add(each.partition, each.base_offset, each.last_offset, each.count)
        self._reach(last)

    def store_one(self, stored: RecordMetadata, place: Place) -> None:
        """Record one acknowledged record, as ``store``."""
        if stored.dead_letter_reason is not None:
            self._bury(f"{place}, {stored.dead_letter_reason}")
        elif stored.scheduled_id is None:
            self._add(stored.partition, stored.offset, stored.offset, 1)
        else:
            self._schedule(1)
        self._reach(place)

    def fail(self, error: TidelogError, place: Place, count: int = 1) -> None:
        """Record that ``count`` records, the first of them at ``place``, were not acknowledged."""
        self.failures[Failure.of(error)] += count
        if self.first_error is None:
            self.first_error, self.failed_at = error, place

    def lose(self, count: int) -> None:
        """Record that nobody waits for the answer about ``count`` records."""
        self.failures[Failure.UNKNOWN] += count

    @property
    def failed_count(self) -> int:
        """Number of records that are not acknowledged."""
        return self.failures.total()

    def ranges(self) -> list[PartitionRange]:
        """Return first and last offset and count of each partition; other clients may have written in between."""
        return [PartitionRange(partition, *self._stored[partition]) for partition in sorted(self._stored)]

    def _bury(self, reason: str) -> None:
        self.dead_letter_count += 1
        self.dead_letter_reason = self.dead_letter_reason or reason

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
