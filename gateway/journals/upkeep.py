"""Upkeep that keeps journals short: drains topics when it is time, and notes in the journal what was drained or has left.

Each gateway looks after the journals that it owns, as far as it knows its peers. If the owner leaves a topic undrained for
twice the time, any other gateway drains it: concurrent drains do no harm. A drain that fails is retried and stops no other
drain; nor does a journal or a closed topic that can't be read.

How long a topic waits is told by the clock of the gateway that appended to it. A time in the future counts from when this
gateway first saw it.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from gateway.cluster.ownership import Ownership
from gateway.engine.open_journal import Journals, OpenJournal
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.journals.future_times import FutureTimes
from gateway.tasks.supervised import run_supervised
from log_format.checkpoints.journal_log import list_journals
from log_format.errors import StoreUnavailable, TidelogError
from log_format.journal.entries import Release
from log_format.journal.topics import JournalTopic

_log = logging.getLogger("gateway.journal")

_ROUND_MS: Final = 1_000
_QUIET_MS: Final = 30_000
"""Interval of looks at a journal with nothing to drain."""
_DRAINS_AT_ONCE: Final = 4
_FOUND_EVERY_ROUNDS: Final = 60
"""Interval, in rounds, of looks for journals that other gateways began."""
_EARLY: Final = 0.75
_SPARE_MS: Final = 20_000
"""A drain begins after the share ``_EARLY`` of ``drain.ms``, or ``_SPARE_MS`` before its end if that is later: so it ends in
time."""
_EARLIEST: Final = 0.25
"""Share of ``drain.ms`` before which no drain begins, however many there are."""
_MEASURED_MIN: Final = 2 * _DRAINS_AT_ONCE
"""Number of drains in one round from which their average duration is measured."""
_LEFT_ROUNDS: Final = 60
"""Interval, in rounds, of checks whether closed topics have left the journal."""


class JournalUpkeep:
    """Upkeep of the ``journals`` and ``topics`` of this gateway."""

    def __init__(self, journals: Journals, topics: OpenTopics, access: TableAccess, ownership: Ownership) -> None:
        self._journals = journals
        self._topics = topics
        self._access = access
        self._ownership = ownership
        self._rounds = 0
        self._drain_takes_ms = 0.0
        self._ahead = FutureTimes()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking after journals."""
        self._running = asyncio.create_task(run_supervised(self._round, "the upkeep of journals"))

    def stop(self) -> None:
        """Stop looking after journals."""
        if self._running is not None:
            self._running.cancel()

    async def run_once(self) -> None:
        """Drain the topics that are due, and commit notes. A journal that can't be read is left to the next round."""
        if self._rounds % _FOUND_EVERY_ROUNDS == 0:
            await self._find()
        self._rounds += 1
        self._ahead.begin()
        for journal in list(self._journals):
            try:
                await self._keep(journal)
            except TidelogError as error:
                _log.warning("journal %d can't be looked after: %s", journal.number, error.detail)

    async def _keep(self, journal: OpenJournal) -> None:
        is_owner = self._ownership.of_journal(journal.number) is None
        age_ms_max = _ROUND_MS if journal.state.runs.file_count() else _QUIET_MS
        state = await journal.recent(age_ms_max)
        clock, topics = self._access.clock, state.topics.by_id.values()
        now_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()
        due = {}
        for topic in topics:
            age_ms = self._ahead.age_ms(topic, now_ms, monotonic_ms)
            if age_ms is not None and _is_due(journal, topic, age_ms, is_owner=is_owner):
                due[id(topic)] = topic
        if is_owner:
            due |= {id(topic): topic for topic in must_begin_early(topics, now_ms, self._drain_takes_ms)}
        await self._drain_all(list(due.values()), (journal.log.observed_ms or 0) - 1)
        if is_owner and self._rounds % _LEFT_ROUNDS == 0:
            await self._release(journal, topics)
        # An owner with batches commits the notes with its next flush; what other gateways commit goes through the owner.
        if (journal.writer.is_idle or not is_owner) and (journal.writer.has_notes or state.runs.unneeded(1)):
            await journal.commit_entries()

    async def _round(self) -> None:
        await self.run_once()
        await asyncio.sleep(_ROUND_MS / 1000)

    async def _find(self) -> None:
        """Open the journals that the store has."""
        try:
            numbers = await self._access.look_pool.run(list_journals, self._access.store)
        except StoreUnavailable as error:
            _log.warning("journals can't be listed: %s", error.detail)
            return
        for number in numbers:
            self._journals.get(number)

    async def _drain_all(self, due: Sequence[JournalTopic], since_ms: int) -> None:
        waiting, began_ms = iter(due), self._access.clock.monotonic_ms()

        async def drain() -> None:
            for topic in waiting:
                await self._drain(topic, since_ms)

        await asyncio.gather(*(drain() for _ in range(_DRAINS_AT_ONCE)))
        if len(due) >= _MEASURED_MIN:
            took_ms = self._access.clock.monotonic_ms() - began_ms
            self._drain_takes_ms = (self._drain_takes_ms or took_ms / len(due)) / 2 + took_ms / len(due) / 2

    async def _drain(self, topic: JournalTopic, since_ms: int) -> None:
        """Drain a topic; ``since_ms``: the look at the journal that made the drain due.

        If the topic's id is not the one that the journal has, another gateway has changed the topic, and nothing is drained.
        """
        try:
            opened = self._topics.get(topic.name, always=True)
            await opened.fresh(since_ms)
            if opened.log.state.topic_id == topic.topic_id:
                await opened.moving.drain()
                self._access.metrics.drains.inc()
        except TidelogError as error:
            self._access.metrics.drain_failures.inc()
            _log.warning("topic %s can't be drained: %s", topic.name, error.detail)

    async def _release(self, journal: OpenJournal, topics: Iterable[JournalTopic]) -> None:
        """Note the release of closed topics that are not at the journal any more."""
        for topic in [topic for topic in topics if not topic.is_open]:
            opened = self._topics.get(topic.name, always=True)
            try:
                await opened.look()
            except TidelogError as error:
                _log.warning("whether topic %s has left its journal can't be seen: %s", topic.name, error.detail)
                continue
            own = opened.log.state
            stays = own.topic_id == topic.topic_id and own.attachment is not None
            if not stays or (own.attachment is not None and own.attachment.first != topic.first):
                journal.writer.note(Release(topic.topic_id, topic.number))


def must_begin_early(topics: Iterable[JournalTopic], now_ms: int, takes_ms: float) -> list[JournalTopic]:
    """Return the topics whose drains must begin now so that all drains end in time, if one drain takes ``takes_ms``."""
    waiting = [topic for topic in topics if topic.undrained_since_ms is not None]
    if not waiting:
        return []
    least_ms = min(topic.drain_ms for topic in waiting)
    if len(waiting) * takes_ms + _ROUND_MS <= least_ms - drain_age_ms(least_ms):
        return []
    waiting.sort(key=lambda topic: (topic.undrained_since_ms or 0) + topic.drain_ms)
    count = 0
    for place, topic in enumerate(waiting, 1):
        age_ms = now_ms - (topic.undrained_since_ms or 0)
        if age_ms + _ROUND_MS + place * takes_ms > topic.drain_ms and age_ms >= _EARLIEST * topic.drain_ms:
            count = place
    return waiting[:count]


def drain_age_ms(drain_ms: int) -> float:
    """Return the age of a topic's oldest undrained record at which its drain begins."""
    return max(_EARLY * drain_ms, drain_ms - _SPARE_MS)


def _is_due(journal: OpenJournal, topic: JournalTopic, age_ms: int, *, is_owner: bool) -> bool:
    """Return whether the topic is to be drained by this gateway. Gateways that are not the owner wait for twice the time or
    bytes."""
    after_ms = drain_age_ms(topic.drain_ms) if is_owner else 2 * topic.drain_ms
    if age_ms >= after_ms:
        return True
    undrained = journal.state.runs.of(topic.topic_id)
    return undrained is not None and undrained.size_bytes >= (_EARLY if is_owner else 2) * topic.drain_bytes
