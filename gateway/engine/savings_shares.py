"""Who has spent what of a queue's savings: of a journal its topics, of a system table its groups or queues.

None of them spends more than what it leaves. So one that never pauses has half, and the others' flushes still begin early. What
is earned is for all alike. A topic with commits of its own has nobody to share with.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import nlargest
from typing import Final

PAYERS_MAX: Final = 256
"""Those that have spent least are forgotten first."""


class SavingsShares:
    """Times are the event loop's, in seconds."""

    __slots__ = ("_at", "_owed")

    def __init__(self) -> None:
        self._owed: dict[Hashable, float] = {}
        """Seconds that each has spent, and that were not earned again since."""
        self._at = 0.0

    def may_spend(self, payer: Hashable, left: float) -> bool:
        """Whether it has spent no more than is left. ``payer`` None: it shares with nobody."""
        return self._owed.get(payer, 0.0) <= left

    @property
    def largest(self) -> Hashable:
        """Who has spent most; None: nobody in particular."""
        return max(self._owed, key=self._owed.__getitem__, default=None)

    def pay(self, payers: Iterable[Hashable], seconds: float, now: float) -> None:
        """These share a flush that costs so much."""
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
