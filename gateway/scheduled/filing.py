"""Filing of requests' delayed records: they are in the store before the answer, and found when they are due.

Requests without producer headers that have only delayed records share objects: a topic's group commit collects them for
``flush.ms``, or begins early, as the topic's writer does. A request that may be repeated, or that also appends, has an object
of its own.

Used on the event loop only; blocking calls run in the write pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from gateway.engine.bounds import FLUSH_BYTES_CAP
from gateway.engine.early_flush import EarlyFlush
from gateway.engine.group_commit import IMMEDIATELY, EntryQueue, Group, GroupCommit
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topics import OpenTopics
from gateway.scheduled.calendars import Calendars
from log_format.errors import BackOff, StoreUnavailable
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.filing import FiledRequest, find_earlier_try, find_missed, first_due_ms, put_object, withdraw
from log_format.scheduled.lookup import WaitingRecords, cancel, find, list_waiting

WAITING_MAX: Final = 4_096
"""Number of requests that wait for one topic's next object."""
_REQUESTS_MAX: Final = 1_024

T = TypeVar("T")


class _Schedule:
    """Schedule of one topic's objects: due ``flush_ms`` after the first request came, when enough bytes wait, or early."""

    def __init__(self, early: EarlyFlush) -> None:
        self.early = early
        self.flush_ms = 0
        self.under_way = 0

    def due(self, entries: EntryQueue[Any], now: float) -> float:
        """Return the time when the next object is due, or ``IMMEDIATELY``."""
        if entries.size_bytes >= FLUSH_BYTES_CAP:
            return IMMEDIATELY
        seconds = self.flush_ms / 1000
        early = self.early.due(entries, now, flush_seconds=seconds, is_under_way=bool(self.under_way))
        return min(early, entries.entries[0].arrived + seconds)

    def has_room(self, entries: EntryQueue[Any]) -> bool:
        """Return True: each group lets the next one be taken immediately."""
        del entries
        return True

    def take(self, entries: EntryQueue[Any], now: float) -> int:
        """Return how many requests an object may have."""
        size = count = 0
        for pending in entries.entries[:_REQUESTS_MAX]:
            size += pending.size_bytes
            if count and size > FLUSH_BYTES_CAP:
                break
            count += 1
        seconds = self.flush_ms / 1000
        self.early.on_taken(entries, count, now, seconds, is_late=now >= entries.entries[0].arrived + seconds)
        self.under_way += 1
        return count


class Filing:
    """Filing of delayed records. ``notice`` is told when a topic's new records are first due."""

    def __init__(
        self, access: TableAccess, topics: OpenTopics, calendars: Calendars, *, notice: Callable[[int], None]
    ) -> None:
        self._access = access
        self._topics = topics
        self._calendars = calendars
        self._notice = notice
        self._began_ms = access.clock.monotonic_ms()
        self._groups: dict[tuple[str, str], tuple[_Schedule, GroupCommit[DelayedRecords, FiledRequest]]] = {}

    async def file_shared(self, topic: str, topic_id: str, records: DelayedRecords, flush_ms: int) -> FiledRequest:
        """File a request's records together with those of other requests. Raises ``BackOff``, ``OutcomeUnknown``,
        ``CorruptData``."""
        schedule, commits = self._group(topic, topic_id)
        schedule.flush_ms = flush_ms
        pending = commits.submit(records, records.records.nbytes)
        bounds = self._access.bounds
        return await commits.outcome(
            pending,
            self._access.time_limits,
            taken_within_ms=flush_ms + bounds.produce_wait_ms_max,
            ends_within_ms=bounds.commit_wait_ms_max,
        )

    async def file_alone(
        self, topic: str, topic_id: str, records: DelayedRecords, name: str | None = None
    ) -> FiledRequest:
        """File a request's records in an object of their own; ``name``: object's name for a request that may be repeated. Raises
        what ``file_shared`` raises."""
        return (await self._file(topic, topic_id, [records], name))[0]

    async def find_repeated(self, topic: str, topic_id: str, name: str) -> FiledRequest | None:
        """Return what an earlier try has filed under a name; None if it is gone. Raises ``BackOff``, ``CorruptData``."""
        async with self._calendars.locked(topic, topic_id) as calendar:
            return await self._access.write_pool.run(find_earlier_try, calendar, name)

    async def withdraw(self, topic: str, topic_id: str, filed: FiledRequest) -> None:
        """Withdraw the records that ``file_alone`` has filed. Raises ``OutcomeUnknown``."""
        async with self._calendars.locked(topic, topic_id) as calendar:
            await self._access.write_pool.run(withdraw, calendar, filed)

    async def find(self, topic: str, topic_id: str, wanted: str) -> WaitingRecords:
        """Return the waiting record with the id ``wanted``. Raises ``UnknownScheduled``, ``BackOff``, ``CorruptData``."""
        return await self._submit(topic, topic_id, partial(find, wanted=wanted))

    async def cancel(self, topic: str, topic_id: str, wanted: str) -> None:
        """Cancel a waiting record. Raises ``UnknownScheduled``, ``AlreadyDelivered``, ``BackOff``, ``OutcomeUnknown``."""
        await self._submit(topic, topic_id, partial(cancel, wanted=wanted))

    async def list_waiting(self, topic: str, topic_id: str, after: str, count: int) -> list[WaitingRecords]:
        """Return up to ``count`` waiting records behind the id ``after``. Raises ``BackOff``, ``CorruptData``."""
        return await self._submit(topic, topic_id, lambda calendar: list(list_waiting(calendar, after, count)))

    async def drain(self) -> None:
        """File the waiting records of all topics."""
        await asyncio.gather(*(commits.drain() for _, commits in list(self._groups.values())))

    async def _submit(self, topic: str, topic_id: str, ask: Callable[[Calendar], T]) -> T:
        async with self._calendars.locked(topic, topic_id) as calendar:
            try:
                return await self._access.write_pool.run(ask, calendar)
            except StoreUnavailable as problem:
                raise BackOff(f"The store does not serve delayed records: {problem.detail}.") from problem

    def _group(self, topic: str, topic_id: str) -> tuple[_Schedule, GroupCommit[DelayedRecords, FiledRequest]]:
        known = self._groups.get((topic, topic_id))
        if known is None:
            bounds, label = self._access.bounds, f"delayed records of topic {topic!r}"
            first_s = min(bounds.flush_savings_first_ms, bounds.flush_savings_max_ms) / 1000
            now = asyncio.get_running_loop().time()
            for key, (idle, commits) in list(self._groups.items()):
                # Created anew it would have no more savings.
                if commits.is_idle and idle.early.saved_seconds(now) >= first_s:
                    del self._groups[key]
            left = [one.early.saved_seconds(now) for (name, _), (one, _) in self._groups.items() if name == topic]
            schedule = _Schedule(
                EarlyFlush.for_queue("delayed", label, self._access, lambda: min([*left, self._rested_seconds()]))
            )
            made: GroupCommit[DelayedRecords, FiledRequest] = GroupCommit(
                partial(self._commit, topic, topic_id), schedule=schedule, label=label, waiting_max=WAITING_MAX
            )
            known = self._groups[topic, topic_id] = schedule, made
        return known

    def _rested_seconds(self) -> float:
        """Return the time since this gateway began: for so long no gateway has filed, as far as is known here."""
        return (self._access.clock.monotonic_ms() - self._began_ms) / 1000

    async def _commit(self, topic: str, topic_id: str, group: Group[DelayedRecords, FiledRequest]) -> None:
        schedule, commits = self._groups[topic, topic_id]
        group.allow_next()
        try:
            filed = await self._file(topic, topic_id, group.items, None)
        finally:
            schedule.under_way -= 1
            schedule.early.on_ended(commits.waiting, group.pending, asyncio.get_running_loop().time())
        group.settle(filed)

    async def _file(
        self, topic: str, topic_id: str, requests: list[DelayedRecords], name: str | None
    ) -> list[FiledRequest]:
        known_version = await self._topics.table_version(topic)
        calendar, pool = self._calendars.new_calendar(topic, topic_id), self._access.write_pool
        put = partial(put_object, is_repeatable=name is not None, known_version=known_version)
        filed = await pool.run(put, calendar, name or self._access.new_id(), requests)
        async with self._calendars.locked(topic, topic_id) as shared:
            filed = await pool.run(find_missed, shared, filed)
        if (first_due := first_due_ms(filed)) is not None:
            self._notice(first_due)
        return filed
