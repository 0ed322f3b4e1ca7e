"""One partition of a queue as its coordinator has it: the settlements in the store, and the ranges held in memory.

1. An offset is held at most once: by a lease, by a settlement under way, or by a transaction. Nothing held is available.
2. Of the offsets that are not held, the runs say which are available: released records that are due, and all offsets that no
   run covers.
3. Ranges are objects, records are not. A part of a lease may have offsets without a record to deliver; ``Lease.offsets`` then
   lists those with one.

No I/O and no clock. Source: ``SharePartition`` of Kafka (KIP-932).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from log_format.queues.row import Key, PartitionChange
from log_format.queues.runs import RELEASED, SETTLED, Run, advance_start, overlay_runs
from log_format.queues.state import PartitionSettlements

_END = 2**63 - 1
LEASED = "leased"
BUSY = "busy"
"""State of a range while a settlement of it, the end of its lock, or a read is under way."""
PENDING = "pending"
"""State of a range that waits for a transaction."""


@dataclass(slots=True, eq=False)
class Lease:
    """The records of one partition in one answer."""

    lease_id: str
    share: QueuePartition
    parts: dict[HeldRange, None] = field(default_factory=dict)
    ended: list[tuple[int, int, str]] = field(default_factory=list)
    """Settled ranges of the lease: first and last offset, and how they were settled."""
    free: list[tuple[int, int]] = field(default_factory=list)
    """Ranges between the lease's parts that were settled before it began."""
    offsets: npt.NDArray[np.int64] | None = None
    """Offsets of the lease's records, if its parts have other offsets too; None: every offset is a record."""

    def whole(self, first: int, last: int) -> tuple[int, int]:
        """Return the range extended by the adjacent offsets without a record of the lease: they go with the record before
        them."""
        if self.offsets is None:
            return first, last
        at_first = int(np.searchsorted(self.offsets, first))
        at_end = int(np.searchsorted(self.offsets, last, "right"))
        begin = first if at_first else 0
        return begin, int(self.offsets[at_end]) - 1 if at_end < len(self.offsets) else _END


@dataclass(slots=True, eq=False)
class HeldRange:
    """Offsets ``first`` to ``last``, not available. ``count``: deliveries before this one. ``deadline_ms``: monotonic."""

    first: int
    last: int
    count: int
    state: str = BUSY
    leased_by: Lease | None = None
    """Lease of the range; None for one without a lease. ``lease`` is for ranges that are known to have one."""
    pending_id: str | None = None
    deadline_ms: int = 0
    lock_ms: int = 0
    record_count: int = 0
    is_begun: bool = True
    """Whether the end of the range's lock counts as a delivery."""

    @property
    def lease(self) -> Lease:
        """Lease of a range that is leased, or waits for a transaction."""
        assert self.leased_by is not None
        return self.leased_by

    def count_records(self) -> int:
        """Return the number of records in the range."""
        offsets = None if self.leased_by is None else self.leased_by.offsets
        if offsets is None:
            return self.last - self.first + 1
        return int(np.searchsorted(offsets, self.last, "right") - np.searchsorted(offsets, self.first))


class QueuePartition:
    """One partition of a queue in memory. Used on the event loop only."""

    def __init__(self, queue: str, topic: str, key: Key, stored: PartitionSettlements | None) -> None:
        self.queue = queue
        self.topic = topic
        self.key = key
        self.barrier: int | None = None
        """Offset below which records may be leased by the previous coordinator; None: none is, or it is not known yet."""
        self.scanned_to = 0
        """Offset before which records were checked for expiry."""
        self.unwritten: tuple[Run, ...] = ()
        """Runs that are decided and that the next commit writes: records left out, expired ones."""
        self.in_flight = 0
        """Number of records that are held."""
        self.keys: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """Numbers for the keys of the records from ``keys_from`` on, if ``order`` is ``key`` (``keyed``)."""
        self.keys_from = 0
        self.moved_ms = 0
        """Monotonic time when the start offset last moved."""
        self._stored = stored or PartitionSettlements(topic)
        self.start, self.runs = self._stored.start_offset, self._stored.runs
        self._firsts: list[int] = []
        self._held: list[HeldRange] = []
        self._hint = self.start
        """Offset before which nothing is available."""

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.key[1]

    @property
    def held(self) -> Sequence[HeldRange]:
        """Held ranges in order of offset."""
        return self._held

    @property
    def is_idle(self) -> bool:
        """Whether dropping this object loses nothing."""
        return not self._held and not self.unwritten

    # Settled ranges

    def follow(self, stored: PartitionSettlements | None, log_start: int, now_ms: int) -> None:
        """Take up what the store has now, and where the log begins. ``now_ms``: monotonic."""
        before = self.start
        stored = stored or PartitionSettlements(self.topic)
        if stored is not self._stored:
            self._stored = stored
            self._view()
        self._begin_at(log_start)
        if self.start != before:
            self.moved_ms = now_ms

    def note(self, runs: Iterable[Run]) -> None:
        """Take the states of these disjoint runs; the next commit writes them."""
        _, self.unwritten = overlay_runs(-1, self.unwritten, sorted(runs, key=lambda run: run.first))
        self._view()

    def written(self, runs: Sequence[Run]) -> None:
        """Remove these runs from ``unwritten``, since they are in the store."""
        if runs is self.unwritten or runs == self.unwritten:
            self.unwritten = ()
        else:
            stay = [run for run in self.unwritten if not any(one.first <= run.first <= one.last for one in runs)]
            self.unwritten = tuple(stay)

    def change(self, runs: Sequence[Run]) -> PartitionChange:
        """Return the runs as a change for the table."""
        return PartitionChange(
            queue=self.queue, topic=self.topic, topic_id=self.key[0], partition=self.partition, runs=tuple(runs)
        )

    def _view(self) -> None:
        log_start = self.start
        self.start, self.runs = overlay_runs(self._stored.start_offset, self._stored.runs, self.unwritten)
        self._begin_at(log_start)
        self._hint = self.start

    def _begin_at(self, log_start: int) -> None:
        """Count offsets before the log start as settled, with the settled ranges that follow."""
        if self.start < log_start:
            self.start, self.runs = advance_start(log_start, self.runs)

    def give_none_below(self, end: int | None) -> None:
        """Give no record below ``end``; the first ``end`` stays. None: all may be given."""
        if end is None:
            self.barrier = None
        elif self.barrier is None:
            self.barrier = end

    def restart_search(self) -> None:
        """Search for available records from the start again."""
        self._hint = self.start

    # Available ranges

    def acquire(self, *, now_ms: int, end: int, count_max: int) -> HeldRange | None:
        """Hold the first available offsets, at most ``count_max``, of one delivery count; return None if none before ``end`` is
        available."""
        span = self.available(now_ms=now_ms, end=end)
        if span is None or count_max <= 0:
            return None
        first, last, count = span
        return self.hold(HeldRange(first, min(last, first + count_max - 1), count))

    def available(self, *, now_ms: int, end: int) -> tuple[int, int, int] | None:
        """Return the first available offsets and their number of deliveries. ``now_ms``: since the epoch."""
        offset = max(self._hint, self.start, self.barrier or 0)
        is_hint = not self.barrier
        at_held = max(0, bisect_right(self._firsts, offset) - 1)
        at_run = max(0, bisect_right(self.runs, offset, key=lambda run: run.first) - 1)
        while offset < end:
            while at_held < len(self._held) and self._held[at_held].last < offset:
                at_held += 1
            if at_held < len(self._held) and self._held[at_held].first <= offset:
                offset = self._held[at_held].last + 1
                continue
            last = end - 1
            if at_held < len(self._held):
                last = min(last, self._held[at_held].first - 1)
            while at_run < len(self.runs) and self.runs[at_run].last < offset:
                at_run += 1
            run = self.runs[at_run] if at_run < len(self.runs) else None
            if run is None or run.first > offset:
                self._hint = offset if is_hint else self._hint
                return offset, last if run is None else min(last, run.first - 1), 0
            if run.state == RELEASED and run.due_ms <= now_ms:
                self._hint = offset if is_hint else self._hint
                return offset, min(last, run.last), run.count
            if run.state == RELEASED and is_hint:
                self._hint, is_hint = offset, False  # The delayed record stays the hint, since it will be due.
            offset = run.last + 1
        if is_hint:
            self._hint = min(offset, end)
        return None

    def run_at(self, offset: int) -> Run | None:
        """Return the run that covers the offset, None if there is none."""
        at = bisect_right(self.runs, offset, key=lambda run: run.first) - 1
        return self.runs[at] if at >= 0 and self.runs[at].last >= offset else None

    def holder(self, offset: int) -> HeldRange | None:
        """Return the held range with the offset, None if there is none."""
        at = bisect_right(self._firsts, offset) - 1
        return self._held[at] if at >= 0 and self._held[at].last >= offset else None

    def delayed(self, now_ms: int) -> int:
        """Return the number of delayed records that are not due."""
        return sum(run.last - run.first + 1 for run in self.runs if run.state == RELEASED and run.due_ms > now_ms)

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return when the next delayed record is due; None if there is none."""
        return min((run.due_ms for run in self.runs if run.state == RELEASED and run.due_ms > now_ms), default=None)

    def unsettled(self, end: int) -> int:
        """Return the number of offsets before ``end`` that are not settled."""
        done = sum(min(run.last + 1, end) - run.first for run in self.runs if run.state == SETTLED and run.first < end)
        return max(0, end - self.start - done)

    # Held ranges

    def hold(self, held: HeldRange) -> HeldRange:
        """Hold a range of which nothing is held."""
        at = bisect_left(self._firsts, held.first)
        assert at == len(self._held) or held.last < self._held[at].first, "a held range is held again"
        assert at == 0 or self._held[at - 1].last < held.first, "a held range is held again"
        self._firsts.insert(at, held.first)
        self._held.insert(at, held)
        held.record_count = held.count_records()
        self.in_flight += held.record_count
        return held

    def count(self, held: HeldRange, records: int) -> None:
        """Set the number of records of a held range."""
        self.in_flight += records - held.record_count
        held.record_count = records

    def release(self, held: HeldRange) -> None:
        """Stop holding a range; the runs say whether it is available."""
        at = bisect_left(self._firsts, held.first)
        assert self._held[at] is held
        del self._firsts[at], self._held[at]
        self.in_flight -= held.record_count
        if held.leased_by is not None:
            held.leased_by.parts.pop(held, None)
        self._hint = min(self._hint, max(held.first, self.start))
        self.scanned_to = min(self.scanned_to, held.first)

    def part(self, held: HeldRange, first: int, last: int) -> HeldRange:
        """Return the part ``first`` to ``last`` of a held range as a range of its own; the rest stays held as it was."""
        if first > held.first:
            rest = self._cut(held, first)
            held = rest
        if last < held.last:
            self._cut(held, last + 1)
        return held

    def _cut(self, held: HeldRange, at_offset: int) -> HeldRange:
        """Cut a range in two; return the second."""
        rest = HeldRange(
            at_offset,
            held.last,
            held.count,
            held.state,
            held.leased_by,
            held.pending_id,
            held.deadline_ms,
            held.lock_ms,
        )
        rest.is_begun = held.is_begun
        held.last = at_offset - 1
        self.count(held, held.count_records())
        if rest.leased_by is not None:
            rest.leased_by.parts[rest] = None
        return self.hold(rest)

    def leased_parts(self, lease: Lease, first: int, last: int) -> list[HeldRange] | None:
        """Return the unsettled parts of the lease from ``first`` to ``last``; None if anything there is held otherwise."""
        at = max(0, bisect_right(self._firsts, first) - 1)
        found = []
        for held in self._held[at:]:
            if held.first > last:
                break
            if held.last < first:
                continue
            if held.leased_by is lease and held.state == PENDING:
                continue  # This part is settled in a transaction.
            if held.leased_by is not lease or held.state != LEASED:
                return None
            found.append(held)
        return found


def uncovered(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pieces of ``first`` to ``last`` that none of ``ranges`` covers."""
    left = []
    for begin, end in sorted(ranges):
        if begin > first:
            left.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
        if first > last:
            return [one for one in left if one[0] <= one[1]]
    left.append((first, last))
    return [one for one in left if one[0] <= one[1]]
