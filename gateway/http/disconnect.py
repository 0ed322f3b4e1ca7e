"""What the work for a client does when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

IS_GONE: Final = "tidelog.is_gone"
"""In a request's scope: whether its client has closed the connection."""
T = TypeVar("T")


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled if the client goes away first. For waits, not for work that must be finished.

    The request's body must have been read, or never be read. Raises ``ClientDisconnect``, and what ``work`` raises.
    """
    task = asyncio.create_task(work)
    watch = asyncio.create_task(_disconnected(request))
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


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def still_connected(request: Request) -> None:
    """Raise ``ClientDisconnect`` when the client has gone: it may be calling elsewhere. The body must have been read."""
    await asyncio.sleep(0)
    watch = _disconnected(request)
    try:
        # As far as it comes without waiting: a task for that would cost more than most of the call.
        watch.send(None)
    except StopIteration:
        raise ClientDisconnect from None
    finally:
        watch.close()


async def unless_gone(scope: Scope) -> None:
    """As ``still_connected``, before the body is read. Where the server does not tell (``IS_GONE``), every client is there.

    A gateway that stood still finds the request first, and in the event loop's next turn that the client gave it up.
    """
    is_gone: Callable[[], bool] | None = scope.get(IS_GONE)
    if is_gone is None:
        return
    await asyncio.sleep(0)
    if is_gone():
        raise ClientDisconnect
