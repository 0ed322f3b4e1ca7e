"""Budget for the memory of a system table's rows: past it decisions that would add to the table are refused.

Each gateway keeps the rows in memory as long as the table has them. So:

1. A decision that adds more than it replaces is refused if the table would exceed its budget (503 ``OVERLOADED``, nothing
   happened). Decisions that leave the table as large or smaller never are: deleting, leaving, committing again.
2. A decision counts from when it is asked until it is made, so that concurrent decisions do not exceed the budget together.
3. A table past its budget is loaded and served all the same: other gateways may have grown it, or the budget was lowered. Give
   all gateways of a store the same budget.

Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.engine.metrics import EngineMetrics
from gateway.problem import overloaded


class StateBudget:
    """Memory budget of one table.

    ``kind`` names it in metrics; ``advice`` says in the refusal what to do; ``used`` returns the bytes that the table takes
    now.
    """

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
        """Bytes that the table takes, decisions under way included."""
        return self._used() + self._under_way

    def admit(self, growth_bytes: int) -> Callable[[object], None]:
        """Count a decision's growth until the caller calls the returned function. Raises ``BackOff`` (``OVERLOADED``)."""
        growth = max(0, growth_bytes)
        if growth and self.used_bytes + growth > self.bytes_max:
            self._refusals.inc()
            raise overloaded(
                f"The gateway's memory for {self._name} is full ({self.bytes_max} bytes): {self._advice}. "
                "Nothing was changed."
            )
        self._under_way += growth

        def decided(_: object) -> None:
            nonlocal growth
            self._under_way -= growth
            growth = 0

        return decided
