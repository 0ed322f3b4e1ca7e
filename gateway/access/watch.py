"""The watch of ``system/access``: a look every second, every third second while nothing changes; concurrently it compacts the
table.

So a change takes effect everywhere within five seconds, as the API promises. Rewriting the table may take longer, and no look
waits for it.

After a change all waiting requests are woken, to be checked again (``admission_check``). While looks fail, the state grows old;
beyond ``rights.STALE_MS`` it answers nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from gateway.engine.waiters import WaiterSlots
from gateway.system_tables.access import AccessTable
from gateway.tasks.supervised import run_supervised
from log_format.delta.table import NO_LOG
from log_format.errors import TidelogError

LOOK_PAUSE_MS: Final = 1_000
QUIET_LOOKS: Final = 30
"""Looks without a change after which looks become rarer: administration comes in bursts."""
QUIET_PAUSE_FACTOR: Final = 3
"""Factor by which looks become rarer, since each is a request to the store. It leaves two of the five seconds to the store."""
FIRST_LOOK_MS_MAX: Final = 2_000

_log = logging.getLogger("gateway.access")


class AccessWatch:
    """The watch of one access table. Used on the event loop only."""

    def __init__(self, table: AccessTable, places: WaiterSlots, *, pause_ms: int = LOOK_PAUSE_MS) -> None:
        self._table = table
        self._places = places
        self._judged_version = NO_LOG
        self._pause_ms = pause_ms
        self._running: list[asyncio.Task[None]] = []
        self._quiet_looks = 0
        self._failing: set[str] = set()

    async def start(self) -> None:
        """Start to look. Return after the first look, so that a gateway knows all rights when it begins to serve, but after
        ``FIRST_LOOK_MS_MAX`` at the latest, if the store does not answer."""
        with suppress(TidelogError, TimeoutError):
            async with asyncio.timeout(FIRST_LOOK_MS_MAX / 1000):
                await self._table.fresh()
        self._running = [
            asyncio.create_task(run_supervised(self._round, "the watch of the access table")),
            asyncio.create_task(run_supervised(self._keep_small, "the care for the access table")),
        ]

    def stop(self) -> None:
        """Stop looking."""
        for task in self._running:
            task.cancel()

    async def _round(self) -> None:
        try:
            await self._table.fresh()
            self._note("read", None)
        except TidelogError as error:
            self._note("read", error)
        self._quiet_looks += 1
        if self._table.state.version != self._judged_version:
            self._judged_version = self._table.state.version
            self._quiet_looks = 0
            self._places.wake_all()
        is_quiet = self._quiet_looks >= QUIET_LOOKS and "read" not in self._failing
        await asyncio.sleep(self._pause_ms * (QUIET_PAUSE_FACTOR if is_quiet else 1) / 1000)

    async def _keep_small(self) -> None:
        try:
            await self._table.keep_small()
            self._note("kept small", None)
        except TidelogError as error:
            self._note("kept small", error)
        await asyncio.sleep(self._pause_ms / 1000)

    def _note(self, what: str, error: TidelogError | None) -> None:
        """Log when this begins to fail, and when it works again, but not each second."""
        if error is not None and what not in self._failing:
            self._failing.add(what)
            _log.warning("the access table can't be %s: %s", what, error.detail)
        elif error is None and what in self._failing:
            self._failing.discard(what)
            _log.info("the access table can be %s again", what)
