"""What the work for a client does when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

IS_GONE: Final = "tidelog.is_gone"
"""In a request's scope: whether its client has closed the connection. A server that does not say it has none."""
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
    """Raise ``ClientDisconnect`` when the client has gone: it may be calling elsewhere."""
    await unless_gone(request.scope)


async def unless_gone(scope: Scope) -> None:
    """Raise ``ClientDisconnect`` when the request's client has closed the connection, as far as this process could see it by now.

    A gateway that stood still finds the request first, and in the event loop's next turn that the client gave it up.
    """
    await asyncio.sleep(0)
    is_gone: Callable[[], bool] | None = scope.get(IS_GONE)
    if is_gone is not None and is_gone():
        raise ClientDisconnect
