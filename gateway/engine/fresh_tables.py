"""Tables of topics with every record that was acknowledged before a call, for readers of the tables: catalogs and shares.

A topic at a journal is drained for them. However many ask, a topic is drained once in ``DRAIN_PAUSE_S`` at most, by two PUTs, and
no producer waits for it.

Used on the event loop only.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial
from typing import Final, NamedTuple

from gateway.engine.log_look import LogLook
from gateway.engine.open_topics import OpenTopics
from log_format.clock import Clock
from log_format.errors import CorruptData, RequestRefused, StoreUnavailable, TidelogError
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.tables")

DRAIN_PAUSE_S: Final = 0.25
"""Seconds between the beginnings of two drains of a topic, at least."""
REMEMBERED_MAX: Final = 10_000
"""Number of topics whose last drain is remembered: some 500 bytes each."""


class FreshTable(NamedTuple):
    """A topic at the head of its own log. ``as_of_ms``: None: its table has every record that was acknowledged before the call.
    Else the drain failed, and only those that were acknowledged before this time (ms since the epoch) are surely in it."""

    state: TopicState
    as_of_ms: int | None


class FreshTables:
    """Fresh tables. ``pause_s``: ``DRAIN_PAUSE_S``."""

    def __init__(self, topics: OpenTopics, clock: Clock, pause_s: float = DRAIN_PAUSE_S) -> None:
        self._topics = topics
        self._clock = clock
        self._pause_s = pause_s
        self._drains: OrderedDict[str, LogLook] = OrderedDict()
        """By topic; the most recently used last."""

    async def fresh(self, name: str) -> FreshTable:
        """Return a topic's table; drain the topic first. Raises ``UnknownTopic`` and what ``OpenTopics.fresh`` raises; what keeps
        a drain from its end is logged instead, and in the answer."""
        topic = await self._topics.fresh(name, self._clock.monotonic_ms(), always=True)
        before = topic.require_state()
        if before.attachment is None or not before.undrained_count:
            return FreshTable(topic.log.state, None)
        try:
            await self._drain_of(name).after_now()
        except (RequestRefused, CorruptData):
            raise
        except (StoreUnavailable, TidelogError) as problem:
            _log.warning("topic %s was not drained for a reader of its table: %s", name, problem)
            known = topic.require_state()
            since_ms = known.undrained_since_ms
            return FreshTable(topic.log.state, before.modification_time_ms if since_ms is None else since_ms)
        topic.require_state()
        return FreshTable(topic.log.state, None)

    def _drain_of(self, name: str) -> LogLook:
        found = self._drains.get(name)
        if found is None:
            found = self._drains[name] = LogLook(partial(self._drain, name), self._pause_s)
            if len(self._drains) > REMEMBERED_MAX:
                self._drains.popitem(last=False)
        self._drains.move_to_end(name)
        return found

    async def _drain(self, name: str) -> None:
        topic = await self._topics.fresh(name, self._clock.monotonic_ms(), always=True)
        if topic.require_state().undrained_count:
            await topic.moving.drain_all()
