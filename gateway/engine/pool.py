"""Threads for calls that block, so that the event loop never does; bounded in threads and in waiting calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from typing import ParamSpec, TypeVar

from gateway.call import check_way_back
from gateway.engine.bounds import MAP_AHEAD, POOL_WAITING_MAX
from gateway.problem import overloaded

P = ParamSpec("P")
T = TypeVar("T")

MakeExecutor = Callable[[int, str], Executor]
"""Of the number of threads, and the name of each."""


class Pool:
    """``threads`` threads; at most ``waiting_max`` calls wait for one."""

    def __init__(
        self,
        name: str,
        threads: int,
        make_executor: MakeExecutor = ThreadPoolExecutor,
        *,
        waiting_max: int = POOL_WAITING_MAX,
    ) -> None:
        self.name = name
        self._executor = make_executor(threads, name)
        self._threads = threads
        self._calls_max = threads + waiting_max
        self._calls = 0
        self._lock = threading.Lock()

    @property
    def waiting_count(self) -> int:
        """Calls that wait for a thread."""
        return max(0, self._calls - self._threads)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What ``call`` returns or raises. A call cancelled while it waits for a thread never runs; cancelled later, it runs to
        its end.

        Raises ``BackOff`` (``OVERLOADED``) when too many wait already.
        """
        check_way_back()
        with self._lock:
            if self._calls >= self._calls_max:
                raise overloaded(f"Too many calls wait for the store ({self.name}).")
            self._calls += 1
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def ended(future: Future[T]) -> None:
            with self._lock:
                self._calls -= 1
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, outcome, future)

        future = self._executor.submit(call, *args, **kwargs)
        future.add_done_callback(ended)
        try:
            # Not asyncio.wrap_future, whose callbacks are half of what a change of threads costs.
            return await outcome
        except asyncio.CancelledError:
            future.cancel()
            raise

    def map(self, call: Callable[[str], bytes], keys: Iterable[str]) -> Iterator[bytes]:
        """``map`` over all threads, in order, a few results ahead. For callers in another pool's thread; no bound counts it."""
        left = iter(keys)
        while some := list(islice(left, MAP_AHEAD)):
            yield from self._executor.map(call, some)


def _settle(outcome: asyncio.Future[T], ended: Future[T]) -> None:
    if outcome.done():
        return
    if ended.cancelled():
        outcome.cancel()
    elif (error := ended.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(ended.result())
