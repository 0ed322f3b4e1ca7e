"""Hedged reads of old segments: if a read is slow, a second request is sent, and the first answer counts.

1. A read is slow after twice the 95th percentile of recent reads of about its size, and at least ``HEDGE_MS_MIN``. While too few
   are known, it is slow after ``HEDGE_MS_UNKNOWN``. With the 95th percentile itself one read in 20 would be slow, and use up the
   budget of rule 2.
2. At most one read in ``READS_PER_HEDGE`` is hedged, in addition to a few first ones. So a store that is slow as a whole gets
   only a little more load.
3. The slower request of a pair goes on in its thread until the store answers or its timeout ends. At most ``PAIRS_PER_THREAD``
   pairs per calling thread are under way; above that nothing is hedged.
4. A failure counts only if the other request fails, too. A missing object is an answer.

Each request has a thread of its own, a daemon thread. Only reads are hedged, and segments never change.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Final, Literal

from log_format.clock import Clock
from log_format.errors import StoreUnavailable
from log_format.store import ObjectReader

Which = Literal["first", "second"]

HEDGE_MS_MIN: Final = 20
"""Shortest wait in ms before a second request, which costs money and a connection: readers of old records do not notice less."""
HEDGE_MS_UNKNOWN: Final = 500
READS_PER_HEDGE: Final = 20
FIRST_HEDGES: Final = 4
"""Number of hedges available before any read, for a process that starts while the store stalls."""
PAIRS_PER_THREAD: Final = 4
RECENT_READS: Final = 100
READS_KNOWN_MIN: Final = 20
_SLOWEST_SHARE: Final = 0.05
_SLOW_TIMES: Final = 2
_SIZES: Final = (64 * 1024, 1024 * 1024)
"""Limits in bytes between kinds of reads, each with its own usual time: a footer, some row groups, many row groups."""


def requests_at_once(threads: int) -> int:
    """Return the most requests that ``threads`` calling threads have under way at the store."""
    return threads * (1 + PAIRS_PER_THREAD)


class _Recent:
    """Durations of the last reads of one kind."""

    def __init__(self) -> None:
        self._in_turn: deque[int] = deque()
        self._sorted: list[int] = []

    def add(self, took_ms: int) -> None:
        self._in_turn.append(took_ms)
        insort(self._sorted, took_ms)
        if len(self._in_turn) > RECENT_READS:
            self._sorted.remove(self._in_turn.popleft())

    def slow_ms(self) -> int:
        """Return the duration in ms after which a read is slow."""
        count = len(self._sorted)
        if count < READS_KNOWN_MIN:
            return HEDGE_MS_UNKNOWN
        return max(HEDGE_MS_MIN, _SLOW_TIMES * self._sorted[count - 1 - int(count * _SLOWEST_SHARE)])


class HedgedReads:
    """Hedged reads of ``source``, for ``threads`` concurrent threads. Safe from any thread, if ``source`` is.

    ``on_pair``: called for each hedged read with the request that answered first; from any thread.
    """

    def __init__(
        self, source: ObjectReader, *, threads: int, clock: Clock, on_pair: Callable[[Which], None] | None = None
    ) -> None:
        self._source = source
        self._clock = clock
        self._on_pair = on_pair
        self._lock = threading.Lock()
        self._pairs_left = PAIRS_PER_THREAD * threads
        self._credit = FIRST_HEDGES * READS_PER_HEDGE
        self._recent = tuple(_Recent() for _ in range(len(_SIZES) + 1))

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return the object, as ``ObjectReader.get`` does."""
        return self._first(self._recent[-1], lambda: self._source.get(key, bytes_max=bytes_max))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes, as ``ObjectReader.get_range`` does."""
        kind = sum(end - start > size for size in _SIZES)
        return self._first(self._recent[kind], lambda: self._source.get_range(key, start, end))

    def _first(self, recent: _Recent, request: Callable[[], bytes]) -> bytes:
        """Return the first answer to ``request``. Raises what ``request`` raises."""
        with self._lock:
            self._credit = min(self._credit + 1, FIRST_HEDGES * READS_PER_HEDGE)
            slow_ms = recent.slow_ms()

        def timed() -> tuple[bytes, int]:
            began_ms = self._clock.monotonic_ms()
            return request(), self._clock.monotonic_ms() - began_ms

        first = _begun(timed)
        answer = first
        if not wait((first,), slow_ms / 1000).done and self._may_hedge():
            second = _begun(timed)
            left = _Countdown(self._end_pair)
            first.add_done_callback(left.one_less)
            second.add_done_callback(left.one_less)
            answer = _faster(first, second)
            if self._on_pair is not None:
                self._on_pair("first" if answer is first else "second")
        data, took_ms = answer.result()
        with self._lock:
            recent.add(took_ms)
        return data

    def _may_hedge(self) -> bool:
        with self._lock:
            if not self._pairs_left or self._credit < READS_PER_HEDGE:
                return False
            self._pairs_left -= 1
            self._credit -= READS_PER_HEDGE
            return True

    def _end_pair(self) -> None:
        with self._lock:
            self._pairs_left += 1


class _Countdown:
    """A counter that calls ``end`` once both requests of a pair are done."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._left = 2
        self._lock = threading.Lock()

    def one_less(self, _future: Future[tuple[bytes, int]]) -> None:
        with self._lock:
            self._left -= 1
            is_over = not self._left
        if is_over:
            self._end()


def _begun(request: Callable[[], tuple[bytes, int]]) -> Future[tuple[bytes, int]]:
    """Run the request in a new thread, and return the future of its result."""
    result: Future[tuple[bytes, int]] = Future()

    def run() -> None:
        try:
            result.set_result(request())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the result raises it
            result.set_exception(error)

    threading.Thread(target=run, name="hedge", daemon=True).start()
    return result


def _faster(first: Future[tuple[bytes, int]], second: Future[tuple[bytes, int]]) -> Future[tuple[bytes, int]]:
    """Return the future that is done first and did not fail; ``first`` if both failed."""
    done, left = wait((first, second), return_when=FIRST_COMPLETED)
    answer = first if first in done else second
    if left and isinstance(answer.exception(), StoreUnavailable):
        (other,) = left
        wait((other,))
        return first if isinstance(other.exception(), StoreUnavailable) else other
    return answer
