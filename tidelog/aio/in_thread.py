"""Blocking calls, each in a thread of its own, awaited by a task."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def in_thread(call: Callable[[], _T]) -> asyncio.Future[_T]:
    """Run ``call`` in a new thread, and return the future of its result.

    Cancelling the future does not end the call: await it through ``asyncio.shield`` where that matters.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def give(result: _T) -> None:
        if not future.done():
            future.set_result(result)

    def fail(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - carried to the task that awaits it
            _post(loop, fail, error)
        else:
            _post(loop, give, result)

    threading.Thread(target=run, name="tidelog-aio", daemon=True).start()
    return future


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[[_T], None], argument: _T) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed: no task is waiting
        loop.call_soon_threadsafe(callback, argument)
