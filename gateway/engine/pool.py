"""Threads for blocking calls, so that the event loop never blocks; bounded in threads and in waiting calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Generic, ParamSpec, TypeVar, cast

from gateway.call import check_may_ask_store
from gateway.engine.bounds import MAP_AHEAD, POOL_WAITING_MAX
from gateway.engine.threads import Threads, WorkExecutor
from gateway.problem import overloaded

P = ParamSpec("P")
T = TypeVar("T")

MakeExecutor = Callable[[int, str], WorkExecutor]
"""Factory that gets the number of threads and the name of each."""


class Pool:
    """Pool of ``threads`` threads; at most ``waiting_max`` calls wait for one."""

    def __init__(
        self,
        name: str,
        threads: int,
        make_executor: MakeExecutor = Threads,
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
        """Number of calls that wait for a thread."""
        return max(0, self._calls - self._threads)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``call`` in a thread; return or raise what it does. A call cancelled while it waits for a thread never runs;
        cancelled later, it runs to its end.

        Raises ``BackOff`` (``OVERLOADED``) when too many calls wait already.
        """
        check_may_ask_store()
        with self._lock:
            if self._calls >= self._calls_max:
                raise overloaded(f"Too many calls wait for the store ({self.name}).")
            self._calls += 1
        under_way = _Call(self, partial(call, *args, **kwargs) if args or kwargs else call)
        self._executor.begin(under_way.do)
        try:
            return await under_way.outcome
        except asyncio.CancelledError:
            under_way.give_up()
            raise
        finally:
            # The error refers to this frame and the call to the error: a cycle that would wait for the collector.
            del under_way

    def map(self, call: Callable[[str], bytes], keys: Iterable[str]) -> Iterator[bytes]:
        """Map over all threads, in order, a few results ahead. For callers in another pool's thread; no bound counts these
        calls."""
        left = iter(keys)
        while some := list(islice(left, MAP_AHEAD)):
            yield from self._executor.map(call, some)

    def ended(self) -> None:
        """Count a call as ended. May be called from any thread."""
        with self._lock:
            self._calls -= 1


class _Call(Generic[T]):
    """One call: ``outcome`` gets what it returns or raises."""

    __slots__ = ("_call", "_is_taken", "_lock", "_loop", "_pool", "outcome")

    def __init__(self, pool: Pool, call: Callable[[], T]) -> None:
        self._pool = pool
        self._call = call
        self._lock = threading.Lock()
        self._is_taken = False
        """Whether a thread has begun the call, or its caller has given it up: whichever comes first counts."""
        self._loop = asyncio.get_running_loop()
        self.outcome: asyncio.Future[T] = self._loop.create_future()

    def do(self) -> None:
        """Make the call, unless it was given up. Runs in a thread."""
        if not self._is_first():
            return
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001 - the caller that waits for it raises it
            self._tell(None, error)
            del self  # The error refers to this frame and ``outcome`` to the error: a cycle, as in ``Pool.run``.
        else:
            self._tell(result, None)

    def give_up(self) -> None:
        """Drop the call, whose caller was cancelled: if no thread has begun it, none will, and it is no longer counted."""
        if self._is_first():
            self._pool.ended()

    def _is_first(self) -> bool:
        with self._lock:
            is_first, self._is_taken = not self._is_taken, True
        return is_first

    def _tell(self, result: T | None, error: BaseException | None) -> None:
        self._pool.ended()
        with suppress(RuntimeError):  # The event loop is closed, so no caller waits.
            self._loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: T | None, error: BaseException | None) -> None:
        if self.outcome.done():
            return
        if error is None:
            self.outcome.set_result(cast("T", result))
        else:
            self.outcome.set_exception(error)
