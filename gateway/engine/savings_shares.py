"""Shares of a queue's savings that its payers have spent: a journal's topics, or a system table's groups or queues.

No payer spends more than what it leaves for the others. So a payer that never pauses gets half, and the others' flushes still
begin early. Earned savings are for all payers alike. A topic with commits of its own shares with nobody.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import nlargest
from typing import Final

PAYERS_MAX: Final = 256
"""Number of payers remembered; those that have spent least are dropped first."""


class SavingsShares:
    """Seconds that each payer has spent of one queue's savings. Times are the event loop's, in seconds."""

    __slots__ = ("_at", "_owed")

    def __init__(self) -> None:
        self._owed: dict[Hashable, float] = {}
        """Seconds that each payer has spent and that were not earned again since."""
        self._at = 0.0

    def may_spend(self, payer: Hashable, left: float) -> bool:
        """Return whether the payer has spent no more than ``left``. ``payer`` None: it shares with nobody."""
        return self._owed.get(payer, 0.0) <= left

    @property
    def largest(self) -> Hashable:
        """Payer that has spent most; None if nobody has spent anything."""
        return max(self._owed, key=self._owed.__getitem__, default=None)

    def pay(self, payers: Iterable[Hashable], seconds: float, now: float) -> None:
        """Charge a flush that costs ``seconds`` to its payers in equal shares."""
        owed = self._owed
        if owed:
            each = (now - self._at) / len(owed)
            owed = {payer: spent - each for payer, spent in owed.items() if spent > each}
        self._at = now
        if sharing := {payer for payer in payers if payer is not None}:
            for payer in sharing:
                owed[payer] = owed.get(payer, 0.0) + seconds / len(sharing)
            if len(owed) > PAYERS_MAX:
                owed = dict(nlargest(PAYERS_MAX // 2, owed.items(), key=lambda item: item[1]))
        self._owed = owed
