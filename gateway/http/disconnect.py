"""Cancelling or refusing work for a client that has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

IS_GONE: Final = "tidelog.is_gone"
"""Key in a request's scope of a function that returns whether the client has closed the connection."""
T = TypeVar("T")


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, which is cancelled if the client disconnects first. For waits, not for work that must be
    finished.

    The request's body must already be read, or never be read. Raises ``ClientDisconnect``, and what ``work`` raises.
    """
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        left = [other for other in (task, watch) if not other.done()]
        for other in left:
            other.cancel()
        if left:
            await asyncio.wait(left)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def check_connected(request: Request) -> None:
    """Raise ``ClientDisconnect`` if the client has disconnected: it may be calling elsewhere. The body must already be read."""
    await asyncio.sleep(0)
    watch = _wait_for_disconnect(request)
    try:
        # Runs as far as it gets without waiting: a task would cost more than most of the call.
        watch.send(None)
    except StopIteration:
        raise ClientDisconnect from None
    finally:
        watch.close()


async def check_connected_before_body(scope: Scope) -> None:
    """Raise ``ClientDisconnect`` if the client has disconnected, before the body is read. If the server does not provide
    ``IS_GONE``, assume that the client is connected.

    After a pause of the whole process, the gateway sees the request first, and the client's disconnect in the event loop's next
    iteration.
    """
    is_gone: Callable[[], bool] | None = scope.get(IS_GONE)
    if is_gone is None:
        return
    await asyncio.sleep(0)
    if is_gone():
        raise ClientDisconnect
