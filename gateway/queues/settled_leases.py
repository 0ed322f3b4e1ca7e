"""Settlements of leases that are over, so that a repeat is answered like the first try. Bounded; the oldest are dropped."""

from __future__ import annotations

from collections import OrderedDict

from gateway.queues.queue_partition import Lease, uncovered
from gateway.queues.settlement import Settlement, settled_as


class SettledLeases:
    """Settlements of at most ``count_max`` leases, of all queues."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._leases: OrderedDict[tuple[str, str], tuple[str, int, list[tuple[int, int, str]]]] = OrderedDict()

    def keep(self, queue: str, lease: Lease) -> None:
        """Remember how a lease that is over was settled."""
        share = lease.share
        ended = lease.ended + [(first, last, "") for first, last in lease.free]
        self._leases[queue, lease.lease_id] = (share.topic, share.partition, ended)
        while len(self._leases) > self._count_max:
            self._leases.popitem(last=False)

    def has(self, queue: str, settlement: Settlement, transaction_id: str) -> bool:
        """Return whether exactly this was settled under its lease."""
        known = self._leases.get((queue, settlement.lease))
        if known is None or known[:2] != (settlement.topic, settlement.partition):
            return False
        wanted = settled_as(settlement, transaction_id)
        done = [(first, last) for first, last, ended_as in known[2] if ended_as in ("", wanted)]
        return not uncovered(settlement.first, settlement.last, done)
