"""A token bucket that goes into debt: usage may exceed the level, and then nothing passes until the debt is paid.

So a request's size need not be known before its body is read, and over time the rate is kept exactly.
"""

from __future__ import annotations

import math


class Bucket:
    """A bucket that refills by ``limit`` in each ``span_ms``, and holds at most that. ``share``: this gateway's part of the
    limit, above 0 and up to 1."""

    __slots__ = ("_at_ms", "_capacity", "_level", "_limit", "_per_ms", "_span_ms")

    def __init__(self, limit: int, span_ms: int, *, now_ms: int, share: float = 1.0) -> None:
        self._limit = limit
        self._span_ms = span_ms
        self._at_ms = now_ms
        self._capacity = self._level = limit * share
        self._per_ms = self._capacity / span_ms

    @property
    def per_second(self) -> float:
        """Amount by which the bucket refills in a second."""
        return self._per_ms * 1000

    def set_share(self, share: float, now_ms: int) -> None:
        """Change the part of the limit. A debt is kept."""
        self._refill(now_ms)
        self._capacity = self._limit * share
        self._per_ms = self._capacity / self._span_ms
        self._level = min(self._level, self._capacity)

    def wait_ms(self, now_ms: int) -> int:
        """Return how long until the debt is paid; 0 without a debt."""
        if now_ms > self._at_ms:
            self._refill(now_ms)
        return 0 if self._level >= 0 else max(1, math.ceil(-self._level / self._per_ms))

    def spend(self, amount: int, now_ms: int) -> None:
        """Use an amount, and go into debt if it exceeds the level."""
        if now_ms > self._at_ms:
            self._refill(now_ms)
        self._level -= amount

    def is_full(self, now_ms: int) -> bool:
        """Return whether the bucket can be dropped without effect."""
        self._refill(now_ms)
        return self._level >= self._capacity

    def _refill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._level = min(self._capacity, self._level + (now_ms - self._at_ms) * self._per_ms)
            self._at_ms = now_ms
