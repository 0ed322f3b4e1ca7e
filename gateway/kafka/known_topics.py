"""Topics by id: Kafka's newer requests name topics by id only.

Ids are learned from this gateway's own answers. An id that another gateway's answer had is looked up immediately: first among
topics whose names are new here, then among all. Anybody may ask for ids that no topic has, so look-ups are limited to
``LOOKUPS_MAX`` and one more every ``LOOKUP_INTERVAL_MS``; for an id that was not found, to one every ``LOOKUP_INTERVAL_MS``.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from gateway.log_engine import LogEngine
from gateway.quotas.bucket import Bucket
from gateway.tasks.parallel import run_parallel
from log_format.errors import BackOff, CorruptData
from log_format.topic.state import TopicState

KNOWN_MAX: Final = 100_000
"""Most topics known, at some 300 bytes each."""
LOOKUP_INTERVAL_MS: Final = 5_000
LOOKUPS_MAX: Final = 10
_NOT_FOUND_MAX: Final = 10_000
_CONCURRENT_OPENS_MAX: Final = 16
_PAGE: Final = 1_000


class KnownTopics:
    """Cache of topic names by id. Used on the event loop only."""

    def __init__(self, engine: LogEngine) -> None:
        self._engine = engine
        self._names: OrderedDict[uuid.UUID, str] = OrderedDict()
        self._lookup_rate = Bucket(LOOKUPS_MAX, LOOKUPS_MAX * LOOKUP_INTERVAL_MS, now_ms=engine.clock.monotonic_ms())
        self._not_found: OrderedDict[uuid.UUID, int] = OrderedDict()
        """Times (monotonic, ms) of look-ups that did not find the id."""
        self._lookup_lock = asyncio.Lock()

    def learn(self, topic_id: uuid.UUID, name: str) -> None:
        """Remember the topic's id."""
        if self._names.get(topic_id) != name:
            self._names[topic_id] = name
            if len(self._names) > KNOWN_MAX:
                self._names.popitem(last=False)

    def remember_id(self, state: TopicState) -> uuid.UUID | None:
        """Return the topic's id for an answer, and remember it: the client may use it immediately."""
        if state.topic_id is None:
            return None
        topic_id = uuid.UUID(state.topic_id)
        self.learn(topic_id, state.topic)
        return topic_id

    def is_id_of(self, topic_id: uuid.UUID | None, state: TopicState) -> bool:
        """Return whether the id, if given, is the topic's, which may have been re-created under its name. If not, forget the
        id."""
        if topic_id is None or (state.topic_id is not None and topic_id == uuid.UUID(state.topic_id)):
            return True
        self._names.pop(topic_id, None)
        return False

    async def name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the topic's name; None if no topic is known to have the id, or it can't be looked up now: clients then
        refresh their metadata and retry."""
        try:
            return await self.look_up(topic_id)
        except BackOff:
            return None

    async def look_up(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the topic's name; None if no topic is known to have the id. Raise as ``Administration.page`` does."""
        if topic_id is None:
            return None
        known = self._names.get(topic_id)
        if known is not None or not self._may_look_up(topic_id):
            return known
        async with self._lookup_lock:  # while this waited, another look-up may have found the id
            if topic_id not in self._names and self._may_look_up(topic_id):
                self._lookup_rate.spend(1, self._engine.clock.monotonic_ms())
                await self._search(topic_id)
            return self._names.get(topic_id)

    def _may_look_up(self, topic_id: uuid.UUID) -> bool:
        now_ms = self._engine.clock.monotonic_ms()
        missed_ms = self._not_found.get(topic_id)
        return not self._lookup_rate.wait_ms(now_ms) and (missed_ms is None or now_ms - missed_ms >= LOOKUP_INTERVAL_MS)

    async def look_up_current(self, topic_id: uuid.UUID | None, is_allowed: Callable[[str], bool]) -> str | None:
        """Return the name of the topic that has the id now, read from the store: the topic may have been deleted and re-created
        under its name. A topic that the caller has no right to is not read.

        Raises as ``Administration.page``.
        """
        name = await self.look_up(topic_id)
        if name is None or not is_allowed(name):
            return name
        opened = await self._engine.topics.fresh(name, self._engine.clock.monotonic_ms())
        return name if self.is_id_of(topic_id, opened.state) else None

    async def _search(self, topic_id: uuid.UUID) -> None:
        began_ms = self._engine.clock.monotonic_ms()
        known = set(self._names.values())
        new = [name for name in await self._engine.administration.names() if name not in known]

        async def opened(name: str) -> None:
            with suppress(CorruptData):
                self.remember_id((await self._engine.topics.fresh(name, began_ms)).state)

        await run_parallel(opened, new, limit=_CONCURRENT_OPENS_MAX)
        after: str | None = None if topic_id in self._names else ""
        while after is not None:
            page = await self._engine.administration.page("", after, _PAGE)
            for state in page.topics:
                self.remember_id(state)
            after = page.next_after
        if topic_id not in self._names:
            self._not_found.pop(topic_id, None)
            self._not_found[topic_id] = began_ms
            if len(self._not_found) > _NOT_FOUND_MAX:
                self._not_found.popitem(last=False)
