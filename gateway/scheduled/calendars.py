"""Calendars of the topics with delayed records, as this gateway knows them: few, since each only saves looks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.engine.open_table import TableAccess
from log_format.scheduled.calendar import Calendar

KNOWN_MAX: Final = 1_024


class Calendars:
    """Known calendars by topic and incarnation. Used on the event loop only."""

    def __init__(self, access: TableAccess) -> None:
        self._access = access
        self._known: OrderedDict[tuple[str, str], tuple[Calendar, asyncio.Lock]] = OrderedDict()

    @asynccontextmanager
    async def locked(self, topic: str, topic_id: str) -> AsyncIterator[Calendar]:
        """Yield the calendar, to one caller at a time."""
        calendar, lock = self._get(topic, topic_id)
        async with lock:
            yield calendar

    def new_calendar(self, topic: str, topic_id: str) -> Calendar:
        """Return a calendar that knows nothing yet, for calls that only need keys."""
        access = self._access
        return Calendar(access.store, topic, topic_id, access.clock, access.new_id)

    def _get(self, topic: str, topic_id: str) -> tuple[Calendar, asyncio.Lock]:
        known = self._known.get((topic, topic_id))
        if known is None:
            known = self._known[topic, topic_id] = (self.new_calendar(topic, topic_id), asyncio.Lock())
            for key in [key for key, (_, lock) in self._known.items() if not lock.locked()][: -KNOWN_MAX or None]:
                if len(self._known) > KNOWN_MAX:
                    del self._known[key]
        self._known.move_to_end((topic, topic_id))
        return known
