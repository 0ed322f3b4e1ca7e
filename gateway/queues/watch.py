"""Looks at the topics of queues in use: for added partitions, topics made anew, and records that expire before they are
delivered.

Of each partition the first ``max_in_flight`` records that nothing holds are read once, for their headers. Those that expire
are remembered by offset and time. An idle queue of idle topics costs a comparison: each topic is looked at once for all its
queues.

Used on the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.queues.outcomes import expired_run
from gateway.queues.queue_partition import QueuePartition
from gateway.queues.selection import filter_of
from gateway.tasks.parallel import run_parallel
from log_format.errors import TidelogError
from log_format.queues.row import Key
from log_format.queues.runs import RELEASED, Run
from log_format.records.expiry import NEVER_MS, expiry_times_ms

_READ_BYTES = 1024 * 1024
_PARALLEL_TOPICS_MAX = 64
_log = logging.getLogger("gateway.queues")


@dataclass(slots=True)
class _Expiring:
    """Offsets and times of one partition's records that expire."""

    offsets: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    times_ms: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))


class TopicWatch:
    """Watch of queues' topics. Call ``look`` every few seconds while a queue is in use."""

    def __init__(self, parts: QueueParts, topics: OpenTopics, reading: PartitionReader) -> None:
        self._parts = parts
        self._topics = topics
        self._reading = reading
        self._clock = parts.clock
        self._expiring: dict[tuple[str, Key], _Expiring] = {}
        self._shape: dict[str, tuple[tuple[str | None, int], ...]] = {}
        self._seen: dict[str, tuple[object, ...]] = {}
        """Objects that each queue was last looked at with, compared by identity."""

    def forget(self, queue: LiveQueue) -> None:
        """Drop what is known of the queue, which is no longer coordinated here."""
        self._shape.pop(queue.name, None)
        self._seen.pop(queue.name, None)
        for at in [at for at in self._expiring if at[0] == queue.name]:
            del self._expiring[at]

    async def refresh(self, names: Iterable[str], arrival_ms: int) -> frozenset[str]:
        """Read the newest state of these topics, unless it was read after ``arrival_ms``; return those that can't be read."""

        async def failed(name: str) -> bool:
            try:
                await self._topics.fresh(name, arrival_ms)
            except TidelogError as problem:
                _log.info("topic %s of queues is looked at later: %s", name, problem.detail)
                return True
            return False

        distinct = list(names)
        found = await run_parallel(failed, distinct, limit=_PARALLEL_TOPICS_MAX)
        return frozenset(name for name, is_failed in zip(distinct, found, strict=True) if is_failed)

    def has_news(self, queue: LiveQueue) -> bool:
        """Return whether a look may find anything: something has changed since the last look, or may expire, or is leased."""
        seen = self._seen.get(queue.name, ())
        now = self._now(queue)
        is_same = len(seen) == len(now) and all(one is other for one, other in zip(seen, now, strict=True))
        return not is_same or bool(queue.leases) or self._may_end(queue)

    def _now(self, queue: LiveQueue) -> tuple[object, ...]:
        topics = map(self._topics.known, queue.settings.topics)
        return (queue.queue, queue.used_ms, *(None if topic is None else topic.state for topic in topics))

    def _may_end(self, queue: LiveQueue) -> bool:
        now_ms = self._clock.now_ms()
        some = (self._expiring.get((queue.name, key)) for key in queue.shares) if self._expiring else ()
        return any(one is not None and bool((one.times_ms <= now_ms).any()) for one in some)

    async def look(self, queue: LiveQueue, arrival_ms: int) -> None:
        """Take up changes of the queue's topics. ``arrival_ms`` (monotonic): topics seen later need no look. Raises
        ``TidelogError``."""
        seen = self._now(queue)
        await self._look(queue, arrival_ms)
        self._seen[queue.name] = seen

    async def _look(self, queue: LiveQueue, arrival_ms: int) -> None:
        topics = [await self._topics.fresh(name, arrival_ms) for name in queue.settings.topics]
        shape = tuple((topic.state.topic_id, topic.state.partition_count) for topic in topics)
        if self._shape.get(queue.name) != shape:
            self._shape[queue.name] = shape
            queue.topics_version += 1
            queue.wake_all()
            await self._forget_topics(queue, {topic_id for topic_id, _ in shape if topic_id is not None})
        for topic in topics:
            if topic.state.exists:
                for partition in range(topic.state.partition_count):
                    await self._look_for_expiry(queue, topic, partition)

    async def _forget_topics(self, queue: LiveQueue, existing: set[str]) -> None:
        """Drop the settlements of topics that no longer exist."""
        gone = {key[0] for key in queue.queue.partitions} - existing
        for key in [key for key, share in queue.shares.items() if key[0] not in existing and share.is_idle]:
            del queue.shares[key]
        if gone and not any(key[0] in gone for key in queue.shares):
            await queue.write({}, sorted(gone))

    async def _look_for_expiry(self, queue: LiveQueue, topic: OpenTopic, partition: int) -> None:
        state = topic.state
        key = (state.existing_id, partition)
        end = state.high_watermark(partition)
        if key not in queue.shares and end == state.log_start(partition):
            return
        share = queue.share(topic.name, key, state.log_start(partition))
        if end <= share.start:
            return
        expiring = self._expiring.get((queue.name, key)) or _Expiring()
        await self._scan(queue, topic, share, end, expiring)
        if len(expiring.offsets):
            self._expiring[queue.name, key] = expiring
            self._end(queue, share, expiring)
        else:
            self._expiring.pop((queue.name, key), None)

    async def _scan(
        self, queue: LiveQueue, topic: OpenTopic, share: QueuePartition, end: int, expiring: _Expiring
    ) -> None:
        open_from = share.available(now_ms=NEVER_MS, end=end)
        if open_from is None:
            return
        offset = max(share.scanned_to, open_from[0])
        end = min(end, open_from[0] + queue.settings.max_in_flight)
        wanted = filter_of(queue.settings)
        while offset < end:
            limits = ReadLimits(records_max=end - offset, bytes_max=_READ_BYTES)
            found = await self._reading.read(topic, topic.state, share.partition, offset, limits)
            for table in found.tables:
                times = expiry_times_ms(table.column("headers"))
                if wanted is not None and (times != NEVER_MS).any():
                    times = np.where(wanted.mask(table), times, NEVER_MS)
                late = np.flatnonzero(times != NEVER_MS)
                if len(late):
                    offsets = table.column("offset").to_numpy()[late]
                    fresh = ~np.isin(offsets, expiring.offsets)
                    expiring.offsets = np.concatenate([expiring.offsets, offsets[fresh]])
                    expiring.times_ms = np.concatenate([expiring.times_ms, times[late][fresh]])
            if found.next_offset <= offset:
                break
            offset = share.scanned_to = found.next_offset

    def _end(self, queue: LiveQueue, share: QueuePartition, expiring: _Expiring) -> None:
        """Settle expired records that no member holds, and remove settled ones from ``expiring``."""
        now_ms = self._clock.now_ms()
        settings, late, kept = queue.settings, list[Run](), list[int]()
        for row, (offset, time_ms) in enumerate(
            zip(expiring.offsets.tolist(), expiring.times_ms.tolist(), strict=True)
        ):
            run = share.run_at(offset)
            if offset < share.start or (run is not None and run.state != RELEASED):
                continue
            if time_ms > now_ms or share.holder(offset) is not None:
                kept.append(row)
            elif share.barrier is None or offset >= share.barrier:
                late.append(expired_run(settings, (offset, offset), 0 if run is None else run.count))
            else:
                kept.append(row)
        expiring.offsets, expiring.times_ms = expiring.offsets[kept], expiring.times_ms[kept]
        if late:
            share.note(late)
            queue.expect_flush(0)
            self._parts.metrics.left_out.inc(len(late))


async def look_logged(watch: TopicWatch, queue: LiveQueue, arrival_ms: int) -> None:
    """Call ``watch.look``. A failure is logged, and the next call tries again."""
    try:
        await watch.look(queue, arrival_ms)
    except TidelogError as problem:
        _log.info("the topics of queue %s are looked at later: %s", queue.name, problem.detail)
