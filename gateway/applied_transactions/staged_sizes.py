"""Sizes of the open transactions of Kafka's clients, so that the batch that crosses a bound is the one that is refused.

1. Batches are staged without a look at the others: a listing for each would double the price of a small transaction.
2. A gateway adds up what it staged itself. It lists the transaction when that is a quarter of what was left of a bound at the
   last listing, since other gateways stage batches of the same transaction. So four gateways together stay within the bound.
   It lists at most once for each hundredth of a bound: for 100,000 batches a listing is 100 requests.
3. A refusal rests on a listing that began after the batch arrived, never on the sum: a batch that came twice is in the sum
   twice.

More gateways than four may cross the bound together. The commit judges the whole once more (``Staging.check_whole``).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

REMEMBERED_MAX: Final = 10_000
"""Number of transactions that are counted; past it the least recently used is dropped, and counted from 0 when it goes on."""


@dataclass(slots=True)
class _Size:
    size_bytes: int = 0
    count: int = 0
    share_due: float = 0.25
    """Share of a bound at which the transaction is listed again."""


class StagedSizes:
    """Sizes of open transactions as known by this gateway. ``bytes_max``, ``count_max``: bounds of one transaction."""

    def __init__(self, bytes_max: int, count_max: int) -> None:
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._sizes: OrderedDict[str, _Size] = OrderedDict()

    def add(self, transaction_id: str, size_bytes: int) -> bool:
        """Count a batch that is to be staged; return whether the transaction has to be listed first."""
        size = self._sizes.setdefault(transaction_id, _Size())
        self._sizes.move_to_end(transaction_id)
        if len(self._sizes) > REMEMBERED_MAX:
            self._sizes.popitem(last=False)
        size.size_bytes += size_bytes
        size.count += 1
        share = self._share(size)
        is_due = share >= size.share_due
        if is_due:
            size.share_due = _next_due(share)  # Concurrent batches need not list the transaction, too.
        return is_due

    def listed(self, transaction_id: str, size_bytes: int, count: int) -> None:
        """Replace the count by that of a listing, with the batch that is to be staged included."""
        size = _Size(size_bytes, count)
        size.share_due = _next_due(self._share(size))
        self._sizes[transaction_id] = size

    def _share(self, size: _Size) -> float:
        return max(size.size_bytes / self._bytes_max, size.count / self._count_max)


def _next_due(share: float) -> float:
    return min(1.0, share + max((1 - share) / 4, 0.01))
