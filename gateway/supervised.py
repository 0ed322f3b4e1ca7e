"""Work beside the requests, round after round, for as long as the gateway runs.

A round that meets what nobody foresaw is logged, and the next one comes: nobody else looks after sessions, heartbeats and what
transactions left behind, and a process that had lost one of these would look well and not be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

PAUSE_AFTER_DEFECT_MS: Final = 1_000
"""A round may fail before it waits for anything: it must not keep the event loop for itself."""

_log = logging.getLogger("gateway.supervised")


async def supervised(work: Callable[[], Awaitable[None]], what: str) -> None:
    """Do one round of ``work``, its own pause included, after the other until cancelled. ``what``: its name in the log."""
    while True:
        try:
            await work()
        except Exception as defect:  # noqa: BLE001 - the top of this work: nobody else would ever begin it again
            _log.error("%s met a defect, and goes on", what, exc_info=defect)
            await asyncio.sleep(PAUSE_AFTER_DEFECT_MS / 1000)
