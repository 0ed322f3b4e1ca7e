"""Metrics of queues in a gateway. No label names a queue; ``describing`` has series of queues that are coordinated here."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class QueueMetrics:
    """Totals over the queues coordinated here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.queues = Gauge("tidelog_queues_coordinated", "Queues coordinated here.", registry=registry)
        self.leases = Gauge("tidelog_queue_leases", "Live leases given here.", registry=registry)
        self.delivered = Counter("tidelog_queue_records_delivered", "Records delivered, each time.", registry=registry)
        self.settled = Counter("tidelog_queue_records_settled", "Records that callers settled.", registry=registry)
        self.settlements = Counter("tidelog_queue_settlements", "Settlements of callers.", registry=registry)
        self.ended_locks = Counter(
            "tidelog_queue_locks_ended", "Locks that ended before a settlement.", registry=registry
        )
        self.left_out = Counter(
            "tidelog_queue_records_left_out", "Records that a filter or their expiry kept back.", registry=registry
        )
        self.dropped = Counter(
            "tidelog_queue_records_dropped", "Records given up without a dead letter topic.", registry=registry
        )
        self.dead = Counter("tidelog_queue_dead_letters", "Records put into dead letter topics.", registry=registry)
        self.redriven = Counter("tidelog_queue_records_redriven", "Dead letters produced again.", registry=registry)
