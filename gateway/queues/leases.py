"""Leases of one queue: given, found again for a settlement, renewed, ended.

Each part of a lease has its own lock, since a caller may renew some records only. Used on the event loop only.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from gateway.queues.queue_partition import BUSY, LEASED, HeldRange, Lease, QueuePartition, uncovered
from gateway.queues.settled_leases import SettledLeases
from gateway.queues.settlement import Settlement, settled_as
from log_format.clock import Clock
from log_format.queues.runs import SETTLED as RUN_SETTLED


class Leases:
    """Live leases of one queue.

    ``expect``: told when to call ``ended`` next (monotonic). ``counted``: told by how much the number of leases changes.
    """

    def __init__(
        self,
        queue: str,
        epoch: int,
        clock: Clock,
        settled_leases: SettledLeases,
        *,
        expect: Callable[[int], None],
        counted: Callable[[int], None],
    ) -> None:
        self._queue = queue
        self._epoch = epoch
        self._clock = clock
        self._settled_leases = settled_leases
        self._expect = expect
        self._counted = counted
        self._leases: dict[str, Lease] = {}
        self._number = count(1)
        self._order = count()
        self._ends: list[tuple[int, int, Lease]] = []
        """Heap of the times at which a lease has to be checked for ended locks."""

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def parts(self) -> Iterable[HeldRange]:
        """Parts of all leases."""
        return (held for lease in self._leases.values() for held in lease.parts)

    @property
    def next_end_ms(self) -> int | None:
        """Monotonic time of the next check for ended locks; None if there is none."""
        return self._ends[0][0] if self._ends else None

    def give(self, share: QueuePartition, parts: Sequence[HeldRange], lock_ms: int) -> Lease:
        """Return a new lease of these held ranges, which begins now."""
        lease = Lease(f"{self._epoch}-{next(self._number)}", share, dict.fromkeys(parts))
        ordered = sorted(parts, key=lambda held: held.first)
        for held in ordered:
            held.leased_by, held.state = lease, LEASED
        self.lock(lease, ordered, lock_ms)
        if len(ordered) > 1:
            gaps = uncovered(ordered[0].first, ordered[-1].last, [(one.first, one.last) for one in ordered])
            for first, last in gaps:
                run = share.run_at(first)
                if run is not None and run.state == RUN_SETTLED and run.last >= last:
                    lease.free.append((first, last))
        self._leases[lease.lease_id] = lease
        self._counted(1)
        return lease

    def lock(self, lease: Lease, parts: Iterable[HeldRange], lock_ms: int) -> None:
        """Lock parts of a lease for ``lock_ms`` from now on, also if they were locked for longer."""
        # One more, since the promised time is rounded down to a millisecond.
        deadline_ms = self._clock.monotonic_ms() + lock_ms + 1
        for held in parts:
            held.lock_ms, held.deadline_ms = lock_ms, deadline_ms
        self._expect_end(lease, deadline_ms)

    def find(self, settlement: Settlement, transaction_id: str) -> tuple[Lease, list[HeldRange]] | None:
        """Return the lease and its parts that the settlement is about, cut to size; no parts if they were settled the same way
        before.

        Return None if the lease is over.
        """
        lease = self._leases.get(settlement.lease)
        if lease is None or lease.share.topic != settlement.topic or lease.share.partition != settlement.partition:
            return None
        first, last = settlement.first, settlement.last
        found = lease.share.leased_parts(lease, first, last)
        if found is None or any(part.deadline_ms <= self._clock.monotonic_ms() for part in found):
            return None
        ended_as = settled_as(settlement, transaction_id)
        done = [(one[0], one[1]) for one in lease.ended if one[2] == ended_as]
        covered = [(part.first, part.last) for part in found] + done + lease.free
        if uncovered(first, last, covered) or not (found or done):
            return None
        begin, end = lease.whole(first, last)
        return lease, [lease.share.part(part, max(begin, part.first), min(end, part.last)) for part in found]

    def is_busy(self, settlement: Settlement) -> bool:
        """Return whether another settlement of these records is under way, or the end of their lock."""
        lease = self._leases.get(settlement.lease)
        return lease is not None and any(
            part.state == BUSY and part.first <= settlement.last and settlement.first <= part.last
            for part in lease.parts
        )

    def was_settled(self, settlement: Settlement, transaction_id: str) -> bool:
        """Return whether exactly this was settled under a lease that is over now."""
        if settlement.lease in self._leases:
            return False
        return self._settled_leases.has(self._queue, settlement, transaction_id)

    def resume(self, parts: Iterable[HeldRange]) -> None:
        """Mark parts as leased again after a change of them failed; their locks may have ended meanwhile."""
        for part in parts:
            part.state = LEASED
            self._expect_end(part.lease, part.deadline_ms)

    def ended(self) -> list[HeldRange]:
        """Return the parts whose locks have ended; they are busy from now on."""
        now_ms, ended = self._clock.monotonic_ms(), list[HeldRange]()
        while self._ends and self._ends[0][0] <= now_ms:
            _, _, lease = heapq.heappop(self._ends)
            for held in lease.parts:
                if held.state == LEASED and held.deadline_ms <= now_ms:
                    held.state = BUSY
                    ended.append(held)
        return ended

    def forget_empty(self, leases: Iterable[Lease]) -> None:
        """Drop the leases without parts; remember how they were settled."""
        for lease in leases:
            if not lease.parts and self._leases.pop(lease.lease_id, None) is not None:
                self._counted(-1)
                if lease.ended:
                    self._settled_leases.keep(self._queue, lease)

    def clear(self) -> None:
        """Drop all leases."""
        self._counted(-len(self._leases))
        self._leases.clear()
        self._ends.clear()

    def _expect_end(self, lease: Lease, deadline_ms: int) -> None:
        heapq.heappush(self._ends, (deadline_ms, next(self._order), lease))
        self._expect(deadline_ms)
