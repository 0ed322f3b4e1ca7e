"""Keeps journals short: topics are drained when it is time, and what was drained or left is said in the journal.

Each gateway looks after the journals that it owns, as it sees its peers. What the owner leaves undone for twice the time, any
other gateway does: several at once do no harm. A drain that fails is tried again, and stops no other; nor does a journal or a
closed topic that can't be read.

How long a topic waits is told by the clock of the gateway that appended to it. A time in the future counts from when this
gateway first saw it.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from gateway.cluster.ownership import Ownership
from gateway.engine.open_journal import Journals, OpenJournal
from gateway.engine.open_table import TableAccess
from gateway.engine.registry import TopicRegistry
from gateway.journals.times_ahead import TimesAhead
from gateway.supervised import supervised
from log_format.checkpoints.journal_log import journals_of
from log_format.errors import StoreUnavailable, TidelogError
from log_format.journal.entries import Release
from log_format.journal.topics import JournalTopic

_log = logging.getLogger("gateway.journal")

_ROUND_MS: Final = 1_000
_QUIET_MS: Final = 30_000
"""How often a journal with nothing to drain is looked at."""
_DRAINS_AT_ONCE: Final = 4
_FOUND_EVERY_ROUNDS: Final = 60
"""How often journals that other gateways began are looked for."""
_EARLY: Final = 0.75
_SPARE_MS: Final = 20_000
"""A drain begins after this share of ``drain.ms``, or so long before its end if that is later: then it has ended in time."""
_EARLIEST: Final = 0.25
"""Of ``drain.ms``: no drain begins before, however many there are."""
_MEASURED_MIN: Final = 2 * _DRAINS_AT_ONCE
"""So many drains tell what one takes where there are many."""
_LEFT_ROUNDS: Final = 60
"""How often closed topics are looked at, whether they are gone."""


class JournalUpkeep:
    """``journals`` and ``topics`` of this gateway."""

    def __init__(self, journals: Journals, topics: TopicRegistry, access: TableAccess, ownership: Ownership) -> None:
        self._journals = journals
        self._topics = topics
        self._access = access
        self._ownership = ownership
        self._rounds = 0
        self._drain_takes_ms = 0.0
        self._ahead = TimesAhead()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look after journals from now on."""
        self._running = asyncio.create_task(supervised(self._round, "the upkeep of journals"))

    def stop(self) -> None:
        """Stop."""
        if self._running is not None:
            self._running.cancel()

    async def keep_once(self) -> None:
        """Drain what is due, say what is to be said. A journal that can't be read is left to the next round."""
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
            due |= {id(topic): topic for topic in due_early(topics, now_ms, self._drain_takes_ms)}
        await self._drain_all(list(due.values()), (journal.log.observed_ms or 0) - 1)
        if is_owner and self._rounds % _LEFT_ROUNDS == 0:
            await self._release(journal, topics)
        # The owner's next commit says it; what others commit, they commit by the owner.
        if (journal.writer.is_idle or not is_owner) and (journal.writer.has_notes or state.runs.unneeded(1)):
            await journal.say()

    async def _round(self) -> None:
        await self.keep_once()
        await asyncio.sleep(_ROUND_MS / 1000)

    async def _find(self) -> None:
        """Open the journals that the store has."""
        try:
            numbers = await self._access.look_pool.run(journals_of, self._access.store)
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
        """``since_ms``: the look at the journal at which the drain was due. Where the topic is not known as the journal has it,
        another gateway has changed it."""
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
        """Forget closed topics that are not at the journal any more."""
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


def due_early(topics: Iterable[JournalTopic], now_ms: int, takes_ms: float) -> list[JournalTopic]:
    """Whose drains have to begin now so that none of those that follow ends too late: one after another they take so long."""
    waiting = [topic for topic in topics if topic.undrained_since_ms is not None]
    if not waiting:
        return []
    least_ms = min(topic.drain_ms for topic in waiting)
    if len(waiting) * takes_ms + _ROUND_MS <= least_ms - begins_after_ms(least_ms):
        return []
    waiting.sort(key=lambda topic: (topic.undrained_since_ms or 0) + topic.drain_ms)
    count = 0
    for place, topic in enumerate(waiting, 1):
        age_ms = now_ms - (topic.undrained_since_ms or 0)
        if age_ms + _ROUND_MS + place * takes_ms > topic.drain_ms and age_ms >= _EARLIEST * topic.drain_ms:
            count = place
    return waiting[:count]


def begins_after_ms(drain_ms: int) -> float:
    """How old a topic's oldest undrained record is when its drain begins."""
    return max(_EARLY * drain_ms, drain_ms - _SPARE_MS)


def _is_due(journal: OpenJournal, topic: JournalTopic, age_ms: int, *, is_owner: bool) -> bool:
    """Others than the owner leave it twice the time, and twice the bytes."""
    after_ms = begins_after_ms(topic.drain_ms) if is_owner else 2 * topic.drain_ms
    if age_ms >= after_ms:
        return True
    undrained = journal.state.runs.of(topic.topic_id)
    return undrained is not None and undrained.size_bytes >= (_EARLY if is_owner else 2) * topic.drain_bytes
