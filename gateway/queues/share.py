"""One partition of a queue as its coordinator has it: what is settled in the store, and what is held in memory.

1. An offset is held at most once: by a lease, by a settlement under way, or by a transaction. Nothing held is available.
2. Of what is not held, the runs say what is available: released records whose time has come, and all that no run covers.
3. Ranges are objects, records are not. A part of a lease may span offsets without a record to deliver; ``Lease.offsets`` then has
   those with one.

No I/O and no clock. Source: ``SharePartition`` of Kafka (KIP-932).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from log_format.queues.row import Key, PartitionChange
from log_format.queues.runs import RELEASED, SETTLED, Run, advanced, overlaid
from log_format.queues.state import Settled

_END = 2**63 - 1
LEASED = "leased"
BUSY = "busy"
"""A settlement, the end of its lock, or a read is under way."""
PENDING = "pending"
"""It waits for a transaction."""


@dataclass(slots=True, eq=False)
class Lease:
    """The records of one partition in one answer."""

    lease_id: str
    share: Share
    parts: dict[Held, None] = field(default_factory=dict)
    ended: list[tuple[int, int, str]] = field(default_factory=list)
    """What was settled under it: first and last offset, and how."""
    free: list[tuple[int, int]] = field(default_factory=list)
    """Ranges between its parts that were settled before it began."""
    offsets: npt.NDArray[np.int64] | None = None
    """Of its records, where its parts span others; None: every offset is one."""

    def whole(self, first: int, last: int) -> tuple[int, int]:
        """The range with the offsets behind it that have no record of the lease: they go with the record before them."""
        if self.offsets is None:
            return first, last
        at_first = int(np.searchsorted(self.offsets, first))
        at_end = int(np.searchsorted(self.offsets, last, "right"))
        begin = first if at_first else 0
        return begin, int(self.offsets[at_end]) - 1 if at_end < len(self.offsets) else _END


@dataclass(slots=True, eq=False)
class Held:
    """Offsets ``first`` to ``last``, not available. ``count``: deliveries before this one. ``deadline_ms``: monotonic."""

    first: int
    last: int
    count: int
    state: str = BUSY
    lease: Lease | None = None
    pending_id: str | None = None
    deadline_ms: int = 0
    lock_ms: int = 0
    record_count: int = 0
    is_begun: bool = True
    """Whether the end of its lock counts as a delivery."""

    def counted(self) -> int:
        """How many records it holds."""
        offsets = None if self.lease is None else self.lease.offsets
        if offsets is None:
            return self.last - self.first + 1
        return int(np.searchsorted(offsets, self.last, "right") - np.searchsorted(offsets, self.first))


class Share:
    """Belongs to the event loop."""

    def __init__(self, queue: str, topic: str, key: Key, stored: Settled | None) -> None:
        self.queue = queue
        self.topic = topic
        self.key = key
        self.barrier: int | None = None
        """Offsets below it may be leased by the former coordinator; None: none is, or it is not known yet."""
        self.scanned_to = 0
        """Records before it were looked at for their expiry."""
        self.unwritten: tuple[Run, ...] = ()
        """What is decided and goes into the table with the next commit: records left out, expired ones."""
        self.in_flight = 0
        """Records that are held."""
        self.keys: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        """With ``order`` ``key``: what stands for the key of each record from ``keys_from`` on (``keyed``)."""
        self.keys_from = 0
        self.moved_ms = 0
        """When the start offset moved last (monotonic)."""
        self._stored = stored or Settled(topic)
        self.start, self.runs = self._stored.start_offset, self._stored.runs
        self._firsts: list[int] = []
        self._held: list[Held] = []
        self._hint = self.start
        """Nothing before it is available."""

    @property
    def partition(self) -> int:
        """Its number."""
        return self.key[1]

    @property
    def held(self) -> Sequence[Held]:
        """By offset."""
        return self._held

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with this object."""
        return not self._held and not self.unwritten

    # What is settled

    def follow(self, stored: Settled | None, log_start: int, now_ms: int) -> None:
        """Take up what the store has now, and where the log begins. ``now_ms``: monotonic."""
        before = self.start
        stored = stored or Settled(self.topic)
        if stored is not self._stored:
            self._stored = stored
            self._view()
        self._begin_at(log_start)
        if self.start != before:
            self.moved_ms = now_ms

    def note(self, runs: Iterable[Run]) -> None:
        """Decide these (disjoint) ranges; the next commit has them."""
        _, self.unwritten = overlaid(-1, self.unwritten, sorted(runs, key=lambda run: run.first))
        self._view()

    def written(self, runs: Sequence[Run]) -> None:
        """These of ``unwritten`` are in the store."""
        if runs is self.unwritten or runs == self.unwritten:
            self.unwritten = ()
        else:
            stay = [run for run in self.unwritten if not any(one.first <= run.first <= one.last for one in runs)]
            self.unwritten = tuple(stay)

    def change(self, runs: Sequence[Run]) -> PartitionChange:
        """For the table."""
        return PartitionChange(
            queue=self.queue, topic=self.topic, topic_id=self.key[0], partition=self.partition, runs=tuple(runs)
        )

    def _view(self) -> None:
        log_start = self.start
        self.start, self.runs = overlaid(self._stored.start_offset, self._stored.runs, self.unwritten)
        self._begin_at(log_start)
        self._hint = self.start

    def _begin_at(self, log_start: int) -> None:
        """Count as settled what the log has no more, with the settled ranges that follow."""
        if self.start < log_start:
            self.start, self.runs = advanced(log_start, self.runs)

    def guard(self, end: int | None) -> None:
        """Give nothing below ``end``, once it is given for the first time; None: everything may be given."""
        if end is None:
            self.barrier = None
        elif self.barrier is None:
            self.barrier = end

    def look_again(self) -> None:
        """Something may be available anywhere."""
        self._hint = self.start

    # What is available

    def acquire(self, *, now_ms: int, end: int, count_max: int) -> Held | None:
        """Hold the first available offsets, at most so many, of one delivery count; None: there are none before ``end``."""
        span = self.available(now_ms=now_ms, end=end)
        if span is None or count_max <= 0:
            return None
        first, last, count = span
        return self.hold(Held(first, min(last, first + count_max - 1), count))

    def available(self, *, now_ms: int, end: int) -> tuple[int, int, int] | None:
        """The first available offsets and how often they were delivered. ``now_ms``: since the epoch."""
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
                self._hint, is_hint = offset, False  # its time will come
            offset = run.last + 1
        if is_hint:
            self._hint = min(offset, end)
        return None

    def run_at(self, offset: int) -> Run | None:
        """The run that covers the offset."""
        at = bisect_right(self.runs, offset, key=lambda run: run.first) - 1
        return self.runs[at] if at >= 0 and self.runs[at].last >= offset else None

    def holder(self, offset: int) -> Held | None:
        """What holds the offset."""
        at = bisect_right(self._firsts, offset) - 1
        return self._held[at] if at >= 0 and self._held[at].last >= offset else None

    def delayed(self, now_ms: int) -> int:
        """Records whose time has not come."""
        return sum(run.last - run.first + 1 for run in self.runs if run.state == RELEASED and run.due_ms > now_ms)

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the time of the next delayed record comes."""
        return min((run.due_ms for run in self.runs if run.state == RELEASED and run.due_ms > now_ms), default=None)

    def unsettled(self, end: int) -> int:
        """Offsets before ``end`` that are not settled."""
        done = sum(min(run.last + 1, end) - run.first for run in self.runs if run.state == SETTLED and run.first < end)
        return max(0, end - self.start - done)

    # What is held

    def hold(self, held: Held) -> Held:
        """Take a range that nothing holds."""
        at = bisect_left(self._firsts, held.first)
        assert at == len(self._held) or held.last < self._held[at].first, "a held range is held again"
        assert at == 0 or self._held[at - 1].last < held.first, "a held range is held again"
        self._firsts.insert(at, held.first)
        self._held.insert(at, held)
        held.record_count = held.counted()
        self.in_flight += held.record_count
        return held

    def count(self, held: Held, records: int) -> None:
        """A held range has so many records."""
        self.in_flight += records - held.record_count
        held.record_count = records

    def let_go(self, held: Held) -> None:
        """Hold a range no longer; the runs say what it is now."""
        at = bisect_left(self._firsts, held.first)
        assert self._held[at] is held
        del self._firsts[at], self._held[at]
        self.in_flight -= held.record_count
        if held.lease is not None:
            held.lease.parts.pop(held, None)
        self._hint = min(self._hint, max(held.first, self.start))
        self.scanned_to = min(self.scanned_to, held.first)

    def part(self, held: Held, first: int, last: int) -> Held:
        """The part ``first`` to ``last`` of a held range as a range of its own; the rest stays held as it was."""
        if first > held.first:
            rest = self._cut(held, first)
            held = rest
        if last < held.last:
            self._cut(held, last + 1)
        return held

    def _cut(self, held: Held, at_offset: int) -> Held:
        """Cut a range in two; returns the second."""
        rest = Held(
            at_offset, held.last, held.count, held.state, held.lease, held.pending_id, held.deadline_ms, held.lock_ms
        )
        rest.is_begun = held.is_begun
        held.last = at_offset - 1
        self.count(held, held.counted())
        if rest.lease is not None:
            rest.lease.parts[rest] = None
        return self.hold(rest)

    def of_lease(self, lease: Lease, first: int, last: int) -> list[Held] | None:
        """The parts of the lease from ``first`` to ``last`` that are not settled; None where anything there is held otherwise."""
        at = max(0, bisect_right(self._firsts, first) - 1)
        found = []
        for held in self._held[at:]:
            if held.first > last:
                break
            if held.last < first:
                continue
            if held.lease is lease and held.state == PENDING:
                continue  # settled in a transaction
            if held.lease is not lease or held.state != LEASED:
                return None
            found.append(held)
        return found


def uncovered(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What of ``first`` to ``last`` none of ``ranges`` covers."""
    left = []
    for begin, end in sorted(ranges):
        if begin > first:
            left.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
        if first > last:
            return [one for one in left if one[0] <= one[1]]
    left.append((first, last))
    return [one for one in left if one[0] <= one[1]]
