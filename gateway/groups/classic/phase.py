"""Where a classic group is in its rebalance."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"

    @property
    def state(self) -> str:
        """The word of Tidelog's API."""
        return self.value if self in (Phase.EMPTY, Phase.STABLE) else "Reconciling"
