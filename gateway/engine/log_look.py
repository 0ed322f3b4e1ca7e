"""Looks at one log's head, shared by all callers.

At most one look is under way and one waits to begin. A request needs a look that begins after the request: an older one may
have missed a commit that was acknowledged in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf

from gateway.call import check_may_ask_store


class LogLook:
    """Shared looks at one log.

    Args:
        look: makes one look; its errors reach every caller that waits for it.
        pause_s: seconds between the beginnings of two looks at least, however many ask.
    """

    __slots__ = ("_begun_s", "_look", "_next", "_pause_s", "_running")

    def __init__(self, look: Callable[[], Awaitable[None]], pause_s: float = 0) -> None:
        self._look = look
        self._pause_s = pause_s
        self._begun_s = -inf
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no look is under way or waits."""
        return self._running is None and self._next is None

    async def after_now(self) -> None:
        """Wait for a look that began after this call. Raises what the look raises."""
        check_may_ask_store()
        if self._next is None:
            self._next = asyncio.create_task(self._begin())
            self._next.add_done_callback(_retrieve)
        await asyncio.shield(self._next)

    async def _begin(self) -> None:
        if self._running is not None:
            await asyncio.wait((self._running,))
        now_s = asyncio.get_running_loop().time()
        if (wait_s := self._begun_s + self._pause_s - now_s) > 0:
            await asyncio.sleep(wait_s)
            now_s += wait_s
        self._begun_s = now_s
        self._running, self._next = self._next, None
        try:
            await self._look()
        finally:
            self._running = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Mark the error as retrieved: every caller that waited for the look may have gone."""
    if not task.cancelled():
        task.exception()
