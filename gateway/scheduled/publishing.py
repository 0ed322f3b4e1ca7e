"""Publication of delayed records when they are due, round after round.

1. One listing shows the due records of all topics (``log_format.scheduled.due``). There is one each second while nothing is
   due, and one when a record is due that this gateway has filed or listed. A gateway that is alone, and has seen no
   transaction change for a minute, lists every half minute and half a minute ahead: nothing else files records.
2. The gateway that owns a topic publishes its records. Records that it leaves undone for ``OVERDUE_MS`` are published by other
   gateways, too: windows and their numbers keep two gateways from publishing twice.
3. A window is planned from a listing that began after the newest window was seen (``log_format.scheduled.calendar``).
4. After a window is published each object's next notice is put, then its old ones are deleted.

Used on the event loop only; blocking calls run in a pool of their own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from gateway.cluster.ownership import Ownership
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import Pool
from gateway.memory_budget import MemoryBudget
from gateway.scheduled.calendars import Calendars
from gateway.scheduled.metrics import ScheduledMetrics
from gateway.scheduled.object_cache import ObjectCache
from gateway.system_tables.transactions import TransactionsTable
from gateway.tasks.supervised import run_supervised
from log_format import limits
from log_format.errors import BackOff, CorruptData, ErrorCode, OutcomeUnknown, StoreUnavailable, TidelogError
from log_format.scheduled.calendar import NONE, Calendar, Window
from log_format.scheduled.due import DueNotice, Listing, list_due_now, put_notice
from log_format.scheduled.publication import (
    NUMBERS_PER_WINDOW,
    Part,
    PublicationCutter,
    publication_batch,
    publication_epoch,
)
from log_format.scheduled.scheduled_object import ScheduledObject, next_due
from log_format.schemas.columns.subject_readers import judge_for
from log_format.store import ObjectStore
from log_format.topic.producer_id import PUBLISHER

ROUND_INTERVAL_MS: Final = 1_000
"""Interval at which the store is asked for due records."""
QUIET_INTERVAL_MS: Final = 30_000
"""Interval while there is no other gateway and no transaction: ends of transactions file records without a notice to this
gateway."""
QUIET_AFTER_MS: Final = 60_000
ROUND_MS: Final = 100
"""Shortest time between two rounds."""
OVERDUE_MS: Final = 600
"""Lateness of another gateway's topic from which this gateway publishes its records."""
PARALLEL_TOPICS_MAX: Final = 16
PARALLEL_CALLS_MAX: Final = 8
"""Number of calls of the store in parallel for one topic."""
OBJECTS_READ_MAX: Final = 64
"""Number of one topic's objects whose indexes are in memory at a time."""
MEMORY_WAIT_MS_MAX: Final = 10_000
DISCARDED_MAX: Final = 1_000
"""Number of windows and cancellations of a deleted topic that are deleted at a time."""

T = TypeVar("T")

_log = logging.getLogger("gateway.scheduled")


class DelayedPublisher:
    """Publication by one gateway. ``pool`` runs blocking calls; ``memory``: budget for the records of publications."""

    def __init__(
        self,
        access: TableAccess,
        topics: OpenTopics,
        calendars: Calendars,
        ownership: Ownership,
        transactions: TransactionsTable,
        *,
        cluster_key: Callable[[], Awaitable[bytes]],
        pool: Pool,
        memory: MemoryBudget,
        metrics: ScheduledMetrics,
        cache_bytes_max: int,
    ) -> None:
        self._access = access
        self._pool = pool
        self._memory = memory
        self._metrics = metrics
        self._topics = topics
        self._calendars = calendars
        self._ownership = ownership
        self._transactions = transactions
        self._cluster_key = cluster_key
        self._seen: object = None
        self._quiet_from_ms = 0
        self._objects = ObjectCache(access.store, bytes_max=cache_bytes_max)
        self._next_ms = 0
        self._woken = asyncio.Event()
        self._busy: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(PARALLEL_TOPICS_MAX)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start publishing."""
        self._running = asyncio.create_task(run_supervised(self._round, "the publication of delayed records"))

    async def stop(self) -> None:
        """Stop publishing; return when the publications under way have ended."""
        if self._running is not None:
            self._running.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def notice(self, due_ms: int) -> None:
        """Let the next round begin at ``due_ms``, when a record is due, or earlier."""
        if due_ms < self._next_ms:
            self._next_ms = due_ms
            self._woken.set()

    async def _round(self) -> None:
        clock = self._access.clock
        began_ms = clock.monotonic_ms()
        ahead_ms = QUIET_INTERVAL_MS if self._is_quiet() else ROUND_INTERVAL_MS
        self._next_ms = clock.now_ms() + ahead_ms
        look = partial(list_due_now, ahead_ms=ahead_ms, notices_max=self._access.bounds.due_notices_max)
        try:
            listing = await self._pool.run(look, self._access.store, clock)
        except (StoreUnavailable, BackOff) as problem:
            _log.warning("what is due can't be listed: %s", problem)
            await asyncio.sleep(ROUND_INTERVAL_MS / 1000)
            return
        if listing.next_ms is not None:
            self.notice(listing.next_ms)
        for key, notices in listing.topics.items():
            if not self._is_ours(key[0], notices, listing.until_ms):
                self.notice(max(listing.until_ms, min(notices).due_ms + OVERDUE_MS + 1))
            elif key not in self._busy:
                self._busy.add(key)
                task = asyncio.create_task(self._tend_logged(key, listing))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        await self._pause(began_ms)

    async def _pause(self, began_ms: int) -> None:
        """Wait at least ``ROUND_MS`` since the round began, until a record is due, or until another gateway or a transaction may
        file records."""
        was_quiet = self._is_quiet()
        spent_ms = self._access.clock.monotonic_ms() - began_ms
        await asyncio.sleep(max(0, ROUND_MS - spent_ms) / 1000)
        while (left_ms := self._next_ms - self._access.clock.now_ms()) > 0:
            self._woken.clear()
            try:
                async with asyncio.timeout(min(left_ms, ROUND_INTERVAL_MS) / 1000):
                    await self._woken.wait()
            except TimeoutError:
                if was_quiet and not self._is_quiet():
                    return

    def _is_quiet(self) -> bool:
        """Return whether only this gateway files records, and tells of each."""
        now_ms = self._access.clock.monotonic_ms()
        seen = (self._ownership.view(), self._transactions.state.version)
        if seen != self._seen:
            self._seen, self._quiet_from_ms = seen, now_ms + QUIET_AFTER_MS
        return not self._ownership.peers.count and now_ms >= self._quiet_from_ms

    def _is_ours(self, topic: str, notices: Sequence[DueNotice], now_ms: int) -> bool:
        return self._ownership.of_topic(topic) is None or now_ms - min(notices).due_ms > OVERDUE_MS

    async def _tend_logged(self, key: tuple[str, str], listing: Listing) -> None:
        try:
            async with self._turns:
                await self._tend(*key, listing)
            self.notice(self._access.clock.now_ms())
        except (TidelogError, StoreUnavailable) as problem:
            _log.warning("delayed records of topic %s are late: %s", key[0], problem)
        except Exception as defect:  # noqa: BLE001 - the top of this work: the next round comes
            _log.error("publishing delayed records of topic %s met a defect", key[0], exc_info=defect)
        finally:
            self._busy.discard(key)

    async def _tend(self, name: str, topic_id: str, listing: Listing) -> None:
        notices = listing.topics[name, topic_id]
        topic = await self._topics.fresh(name, self._access.clock.monotonic_ms())
        if topic.state.topic_id != topic_id:
            await self._pool.run(_discard, self._calendars.new_calendar(name, topic_id), notices)
            return
        known = topic.state.producers.by_id.get(PUBLISHER)
        published = NONE if known is None else known.epoch
        async with self._calendars.locked(name, topic_id) as calendar:
            await self._plan(calendar, notices, listing)
            first = max(calendar.published_number + 1, published // NUMBERS_PER_WINDOW)
            windows = await self._pool.run(calendar.windows_behind, first)
            until_ms = calendar.newest.until_ms
        for number, window in windows:
            await self._publish(topic, calendar, number, window, published)
        await self._move(calendar, notices, until_ms)
        async with self._calendars.locked(name, topic_id) as calendar:
            calendar.published_number = max([calendar.published_number, *(number for number, _ in windows)])
            if calendar.published_number == calendar.number:
                await self._pool.run(calendar.clean)

    async def _plan(self, calendar: Calendar, notices: Sequence[DueNotice], listing: Listing) -> None:
        """Put the next window, or see the newest one, so that the next listing begins after it."""
        if not calendar.is_recent_enough(listing.began_ms):
            await self._pool.run(calendar.look)
            return
        until_ms = calendar.newest.until_ms
        keys = {calendar.object_key(due.name) for due in notices}
        objects = await self._run_blocking([partial(self._objects.get, key) for key in sorted(keys)[:OBJECTS_READ_MAX]])
        if len(keys) > OBJECTS_READ_MAX or any(one is not None and one.index.last_due > until_ms for one in objects):
            await self._pool.run(calendar.plan_from, listing)

    async def _publish(self, topic: OpenTopic, calendar: Calendar, number: int, window: Window, published: int) -> None:
        """Append the records that the window takes, in publications whose numbers the log judges."""
        cutter, count = PublicationCutter(window), 0
        for first in range(0, len(window.objects), OBJECTS_READ_MAX):
            names = window.objects[first : first + OBJECTS_READ_MAX]
            gets = [partial(self._objects.get, calendar.object_key(name)) for name in names]
            for name, one in zip(names, await self._run_blocking(gets), strict=True):
                for parts in () if one is None else cutter.add(name, one):
                    await self._append(
                        topic, calendar.topic_id, window, parts, (publication_epoch(number, count), published)
                    )
                    count += 1
        if parts := cutter.finish():
            await self._append(topic, calendar.topic_id, window, parts, (publication_epoch(number, count), published))

    async def _append(
        self, topic: OpenTopic, topic_id: str, window: Window, parts: Sequence[Part], epochs: tuple[int, int]
    ) -> None:
        """Append one publication, unless its epoch, the first of ``epochs``, is published.

        ``topic_id``: id of the topic that the records wait for; a topic made anew meanwhile gets none of them.
        """
        epoch, published = epochs
        if epoch <= published:
            return
        clock, bounds = self._access.clock, self._access.bounds
        size_bytes = sum(max(block.size_bytes, limits.SCHEDULED_BLOCK_BYTES) for _, _, block in parts)
        reservation = await self._memory.reserve_in_turn(size_bytes, wait_ms=MEMORY_WAIT_MS_MAX)
        try:
            reads = [partial(one.read, self._access.store, block) for _, one, block in parts]
            loaded = list(zip(parts, await self._run_blocking(reads), strict=True))
            erasures = topic.state.erasures
            secret = await self._cluster_key() if erasures else b""
            judge = judge_for(erasures, self._access.store, topic.state.config.subjects)
            make = partial(publication_batch, erasures=erasures, secret=secret, judge=judge)
            made = await self._pool.run(make, topic_id, window, loaded, epoch, clock.now_ms())
            if made is None:
                reservation.release()
                return
            batch, first_due_ms = made
            settled = topic.appending.submit(batch, reservation).settled
        except BaseException as problem:
            if isinstance(problem, CorruptData):
                for _, one, _ in parts:  # maintenance may have put an object again
                    self._objects.forget(one.key)
            reservation.release()
            raise
        if not (await asyncio.wait((settled,), timeout=bounds.commit_wait_ms_max / 1000))[0]:
            raise OutcomeUnknown(f"The publication of delayed records of topic {topic.name!r} takes too long.")
        refusal = settled.exception()
        if refusal is None:
            self._metrics.published.inc(batch.record_count)
            self._metrics.late_seconds.observe(max(0, clock.now_ms() - first_due_ms) / 1000)
        elif not isinstance(refusal, TidelogError) or refusal.code is not ErrorCode.FENCED_PRODUCER:
            raise refusal  # A fenced publication was made by another gateway, which went on.

    async def _move(self, calendar: Calendar, notices: Sequence[DueNotice], until_ms: int) -> None:
        """Put each object's next notice, and delete the old ones; delete objects that are kept no longer."""
        by_name: dict[str, list[DueNotice]] = {}
        for due in notices:
            by_name.setdefault(due.name, []).append(due)
        now_ms = self._access.clock.now_ms()
        await self._run_blocking(
            [partial(self._moved, calendar, name, dues, until_ms, now_ms) for name, dues in by_name.items()]
        )

    def _moved(self, calendar: Calendar, name: str, dues: Sequence[DueNotice], until_ms: int, now_ms: int) -> None:
        store, key = self._access.store, calendar.object_key(name)
        one = self._objects.get(key)
        following = None if one is None else _next_notice(store, one, until_ms)
        if one is not None and following is not None and one.index.last_due <= until_ms and following <= now_ms:
            store.delete(key)
            self._objects.forget(key)
            following = None
        kept = None if following is None else DueNotice(following, calendar.topic, calendar.topic_id, name)
        if kept is not None and kept not in dues:
            put_notice(store, kept)
        for due in dues:
            if due != kept:
                store.delete(due.key)

    async def _run_blocking(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Make blocking calls in parallel; return their results. Raises the first error once all have ended."""
        turns = asyncio.Semaphore(PARALLEL_CALLS_MAX)

        async def one(call: Callable[[], T]) -> T:
            async with turns:
                return await self._pool.run(call)

        results = []
        for result in await asyncio.gather(*map(one, calls), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
        return results


def _next_notice(store: ObjectStore, one: ScheduledObject, until_ms: int) -> int:
    """Return when the object's next record after ``until_ms`` is due; if there is none, when the object may be deleted."""
    for block in one.index.blocks:
        if block.first_due > until_ms:
            return block.first_due
        if block.last_due > until_ms:
            following = next_due(one.read(store, block), until_ms)
            assert following is not None
            return following
    return one.index.last_due + one.index.kept_ms


def _discard(calendar: Calendar, notices: Sequence[DueNotice]) -> None:
    """Delete the due objects of a topic that is gone, the notices last."""
    for due in notices:
        calendar.store.delete(calendar.object_key(due.name))
    rest = (info for part in ("windows/", "cancelled/") for info in calendar.store.list(f"{calendar.root}{part}"))
    for info in list(islice(rest, DISCARDED_MAX)):
        calendar.store.delete(info.key)
    for due in notices:
        calendar.store.delete(due.key)
