"""Metrics of queues in a gateway. No label names a queue; ``describing`` has series of queues that are coordinated here."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class QueueMetrics:
    """Totals over the queues coordinated here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.queues = Gauge("tidelog_queues_coordinated", "Queues coordinated here.", registry=registry)
        self.leases = Gauge(
            "tidelog_queue_leases", "Leases held by consumers of queues coordinated here.", registry=registry
        )
        self.delivered = Counter(
            "tidelog_queue_records_delivered", "Deliveries of records, including repeated ones.", registry=registry
        )
        self.settled = Counter("tidelog_queue_records_settled", "Records settled by consumers.", registry=registry)
        self.settlements = Counter("tidelog_queue_settlements", "Settlement requests of consumers.", registry=registry)
        self.ended_locks = Counter(
            "tidelog_queue_locks_ended", "Leases that expired before a settlement.", registry=registry
        )
        self.left_out = Counter(
            "tidelog_queue_records_left_out",
            "Records skipped by a filter or because they had expired.",
            registry=registry,
        )
        self.dropped = Counter(
            "tidelog_queue_records_dropped",
            "Records given up after their last delivery, in queues without a dead letter topic.",
            registry=registry,
        )
        self.dead = Counter("tidelog_queue_dead_letters", "Records moved to dead letter topics.", registry=registry)
        self.redriven = Counter(
            "tidelog_queue_records_redriven", "Dead letters produced again to their topic.", registry=registry
        )
