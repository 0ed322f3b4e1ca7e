"""The metrics of all workers behind this gateway's port, which their supervisor merges.

A scraper that reaches now one worker, now another would see counters jump.
"""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Final

ASKED_SECONDS_MAX: Final = 10
"""The supervisor asks one worker after the other, and waits three seconds for one that does not answer."""


class WorkersPage:
    """Belongs to the event loop. ``url``: where the supervisor has it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._asking: asyncio.Task[bytes | None] | None = None

    async def read(self) -> bytes | None:
        """The page; None where the supervisor does not answer. Requests at the same time share one look."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(self._read))
        return await asyncio.shield(self._asking)

    def _read(self) -> bytes | None:
        try:
            with urllib.request.urlopen(self._url, timeout=ASKED_SECONDS_MAX) as answer:  # noqa: S310 - the supervisor's
                page: bytes = answer.read()
        except OSError:
            return None
        return page
