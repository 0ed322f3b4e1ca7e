"""Phase of a classic group's rebalance."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Phase of a rebalance, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"

    @property
    def state(self) -> str:
        """State in the words of Tidelog's API."""
        return self.value if self in (Phase.EMPTY, Phase.STABLE) else "Reconciling"
