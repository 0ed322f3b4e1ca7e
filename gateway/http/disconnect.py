"""What the work for a client does when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

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
