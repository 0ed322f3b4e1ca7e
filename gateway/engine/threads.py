"""Threads for blocking calls. Each call wakes only the thread that makes it.

1. A call that finds idle threads goes to the one that became idle last: its stack and what it used are still in a CPU cache.
2. Calls beyond the number of threads wait in order.
3. Threads start when they are needed. They end when the object is dropped, or with the program, which waits for calls that
   have begun or wait.

``ThreadPoolExecutor`` has one queue on which all its threads wait. Each call wakes a second thread in addition to its own, and
that second thread contends for the interpreter's lock only to find the queue empty.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Work = Callable[[], None]
"""Call that a thread makes; it must raise nothing."""


class WorkExecutor(Executor):
    """An executor whose calls may do without a future."""

    @abstractmethod
    def begin(self, work: Work) -> None:
        """Make the call in a thread, once one is free."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Make the call in a thread, and return its future (``Executor.submit``)."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - the caller that waits for it raises it
                future.set_exception(error)
            else:
                future.set_result(result)

        self.begin(work)
        return future


class Threads(WorkExecutor):
    """At most ``count_max`` threads, which are called ``name``."""

    def __init__(self, count_max: int, name: str) -> None:
        self._work = _SharedWork(count_max, name)
        _ALL.add(self._work)
        # The thread that drops the last reference does not wait for calls under way: it may be the event loop's thread.
        weakref.finalize(self, self._work.end, wait=False).atexit = False

    def begin(self, work: Work) -> None:
        """Make the call in a thread, once one is free. May be called from any thread. Raises ``RuntimeError`` after
        ``shutdown``."""
        self._work.begin(work)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Refuse further calls. Wait for those that have begun or wait, unless ``wait`` is false."""
        del cancel_futures
        self._work.end(wait=wait)


class _Thread:
    """One thread. ``wake`` is locked while the thread is idle; ``work``: call that it was woken for, None: to end."""

    __slots__ = ("thread", "wake", "work")

    def __init__(self) -> None:
        self.wake: Final = threading.Lock()
        self.wake.acquire()
        self.work: Work | None = None
        self.thread: threading.Thread


class _SharedWork:
    """Queue and threads, shared with the running threads. They hold no reference to ``Threads``, which can be collected while
    they are idle."""

    def __init__(self, count_max: int, name: str) -> None:
        self._count_max = count_max
        self._name = name
        self._lock = threading.Lock()
        self._threads: list[_Thread] = []
        self._resting: list[_Thread] = []
        self._waiting: deque[Work] = deque()
        self._is_over = False

    def begin(self, work: Work) -> None:
        with self._lock:
            if self._is_over:
                raise RuntimeError("these threads take no more work")
            if self._resting:
                thread = self._resting.pop()
                thread.work = work
                thread.wake.release()
            elif len(self._threads) < self._count_max:
                self._start(work)
            else:
                self._waiting.append(work)

    def end(self, *, wait: bool) -> None:
        with self._lock:
            self._is_over = True
            resting, self._resting = self._resting, []
        for thread in resting:
            thread.work = None
            thread.wake.release()
        if wait:
            for thread in self._threads:
                if thread.thread is not threading.current_thread():
                    thread.thread.join()

    def _start(self, work: Work) -> None:
        own = _Thread()
        own.work = work
        number = len(self._threads)
        # A daemon: the end of the program would otherwise wait for an idle thread before telling it to end.
        own.thread = threading.Thread(target=self._run, args=(own,), name=f"{self._name}_{number}", daemon=True)
        own.thread.start()
        self._threads.append(own)

    def _run(self, own: _Thread) -> None:
        while own.work is not None:
            work: Work | None = own.work
            own.work = None
            while work is not None:
                work()
                del work
                work = self._next(own)
            own.wake.acquire()

    def _next(self, own: _Thread) -> Work | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._is_over:
                own.wake.release()
            else:
                self._resting.append(own)
            return None


_ALL: Final[weakref.WeakSet[_SharedWork]] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for work in list(_ALL):
        work.end(wait=True)
