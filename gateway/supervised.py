"""Work beside the requests, round after round, for as long as the gateway runs.

An unforeseen error of a round is logged, and the next round comes. Only this work tends sessions, heartbeats and what
transactions leave behind. A process without it would look well and not be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

PAUSE_AFTER_DEFECT_MS: Final = 1_000
"""A round may fail before it awaits anything: it must not keep the event loop for itself."""

_log = logging.getLogger("gateway.supervised")


async def supervised(
    work: Callable[[], Awaitable[None]], what: str, *, pause_after_defect_ms: int = PAUSE_AFTER_DEFECT_MS
) -> None:
    """Do round after round of ``work``, which makes its own pause, until cancelled. ``what``: its name in the log."""
    while True:
        try:
            await work()
        except Exception as defect:  # noqa: BLE001 - the top of this work: no other code would begin it again
            _log.error("%s met a defect, and goes on", what, exc_info=defect)
            await asyncio.sleep(pause_after_defect_ms / 1000)
