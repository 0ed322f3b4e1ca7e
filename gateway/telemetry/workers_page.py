"""The metrics of all workers behind this gateway's port, which their supervisor merges.

A scraper that reaches now one worker, now another would see counters jump.
"""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Final

ASKED_SECONDS_MAX: Final = 10
"""Seconds to wait: the supervisor asks one worker after the other, and waits three seconds for one that does not answer."""


class WorkersPage:
    """The supervisor's page of metrics, at ``url``. Used on the event loop only."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._asking: asyncio.Task[bytes | None] | None = None

    async def read(self) -> bytes | None:
        """Return the page; None if the supervisor does not answer. Concurrent requests share one look."""
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
