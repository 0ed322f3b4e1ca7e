"""Metrics of groups in a gateway."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class GroupMetrics:
    """Metrics of groups. No label names a group, since a store may have any number. ``lag_watch`` names the groups with the
    largest lag."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.groups = Gauge("tidelog_groups_coordinated", "Consumer groups coordinated here.", registry=registry)
        self.members = Gauge("tidelog_group_members", "Members of the groups coordinated here.", registry=registry)
        self.rebalances = Counter(
            "tidelog_group_rebalances", "Generations of groups coordinated here.", registry=registry
        )
        self.ended_sessions = Counter(
            "tidelog_group_sessions_ended", "Members removed because their session timed out.", registry=registry
        )
        self.committed_offsets = Counter(
            "tidelog_group_offsets_committed", "Offsets committed through this gateway.", registry=registry
        )
