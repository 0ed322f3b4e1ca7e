"""A token bucket that goes into debt: what is used may exceed what is there, and then nothing passes until it is paid.

So a request's size need not be known before its body is read, and over time the rate is kept exactly.
"""

from __future__ import annotations

import math


class Bucket:
    """``limit`` comes in ``span_ms``, and at most so much is there. ``share``: this gateway's part of it, above 0, up to 1."""

    __slots__ = ("_at_ms", "_capacity", "_level", "_limit", "_per_ms", "_span_ms")

    def __init__(self, limit: int, span_ms: int, *, now_ms: int, share: float = 1.0) -> None:
        self._limit = limit
        self._span_ms = span_ms
        self._at_ms = now_ms
        self._capacity = self._level = limit * share
        self._per_ms = self._capacity / span_ms

    @property
    def per_second(self) -> float:
        """What comes in a second, here."""
        return self._per_ms * 1000

    def take_share(self, share: float, now_ms: int) -> None:
        """Go on with another part of the limit. A debt stays."""
        self._refill(now_ms)
        self._capacity = self._limit * share
        self._per_ms = self._capacity / self._span_ms
        self._level = min(self._level, self._capacity)

    def wait_ms(self, now_ms: int) -> int:
        """How long until the debt is paid; 0: without one."""
        if now_ms > self._at_ms:
            self._refill(now_ms)
        return 0 if self._level >= 0 else max(1, math.ceil(-self._level / self._per_ms))

    def spend(self, amount: int, now_ms: int) -> None:
        """Use so much, into debt where it is more than there is."""
        if now_ms > self._at_ms:
            self._refill(now_ms)
        self._level -= amount

    def is_full(self, now_ms: int) -> bool:
        """Whether forgetting it changes nothing."""
        self._refill(now_ms)
        return self._level >= self._capacity

    def _refill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._level = min(self._capacity, self._level + (now_ms - self._at_ms) * self._per_ms)
            self._at_ms = now_ms
