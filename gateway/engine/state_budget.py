"""How much memory the rows of a system table may take: past it what would make it larger is refused.

The rows stay in memory, in every gateway, as long as the table has them. So:

1. A decision that adds more than it replaces is refused when the table would take more than its budget then (503 ``OVERLOADED``,
   nothing happened). What makes the table smaller, or leaves it as large, never is: deleting, leaving, committing again.
2. Decisions under way count from when they are taken until they are decided, so that many at once do not pass together.
3. A table that is past its budget already is loaded and served all the same: other gateways may have grown it, or the budget was
   lowered. Give all gateways of a store the same.

Belongs to the event loop.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.engine.metrics import EngineMetrics
from gateway.problem import overloaded


class StateBudget:
    """``kind`` names it in metrics, ``advice`` says in the refusal what to do; ``used`` is what the table takes now."""

    def __init__(
        self, kind: str, bytes_max: int, *, used: Callable[[], int], advice: str, metrics: EngineMetrics
    ) -> None:
        self.bytes_max = bytes_max
        self._name = kind.replace("_", " ")
        self._used = used
        self._advice = advice
        self._under_way = 0
        self._refusals = metrics.state_refusals.labels(kind)
        metrics.state_bytes.labels(kind).set_function(used)
        metrics.state_bytes_max.labels(kind).set(bytes_max)

    @property
    def used_bytes(self) -> int:
        """What the table takes, and what is under way to it."""
        return self._used() + self._under_way

    def admit(self, growth_bytes: int) -> Callable[[object], None]:
        """Count what will make the table larger until what is returned is called, once it is decided. Raises ``BackOff``
        (``OVERLOADED``)."""
        growth = max(0, growth_bytes)
        if growth and self.used_bytes + growth > self.bytes_max:
            self._refusals.inc()
            raise overloaded(
                f"The gateway holds as much about {self._name} as it may ({self.bytes_max} bytes): {self._advice}. "
                "Nothing happened."
            )
        self._under_way += growth

        def decided(_: object) -> None:
            nonlocal growth
            self._under_way -= growth
            growth = 0

        return decided
