"""Moves of topics with ``commit.mode`` ``auto`` between their own commits and a journal, by rates that this gateway measures.

1. A gateway keeps up with ``OWN_COMMITS_MAX`` own commits a second at little cost. When its topics want more, topics with few
   bytes a flush go to a journal. While many topics here write to a journal, others join them from ``OWN_COMMITS_LEFT`` commits
   a second on. Few topics stay as they are, however often each flushes: a journal only saves what topics share. The same holds
   for waiting readers: each topic with own commits and a waiting reader costs a look at its log every ``log_poll_ms``, but a
   journal costs one look for all of its topics. Above ``LOOKS_MAX`` looks a second such topics go to a journal, too. While
   readers wait for many topics at journals, others join them from ``LOOKS_LEFT`` looks a second on.
2. A topic at a journal whose flushes would be ``OWN_FLUSH_BYTES`` or more, for ``OWN_AGAIN_MS``, gets its own commits again.
3. No topic moves more than once in ``MOVED_AGAIN_MS``. Each move is logged, and its reason is in the topic's description.
4. A topic that is created while many others are created begins at a journal (``engine.administration``).

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gateway.call import detached_from_call
from gateway.engine.open_journal import Journals
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.tasks.supervised import run_supervised
from log_format.errors import TidelogError
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import MoveTopic

_log = logging.getLogger("gateway.journal")

OWN_COMMITS_MAX: Final = 25.0
OWN_COMMITS_LEFT: Final = 5.0
LOOKS_MAX: Final = 50.0
LOOKS_LEFT: Final = 5.0
TOPICS_MIN: Final = 20
"""Number of topics below which none is moved to a journal."""
OWN_FLUSH_BYTES: Final = 1024 * 1024
SMALL_FLUSH_BYTES: Final = 256 * 1024
"""Bytes of a flush above which a topic is not moved to a journal: own commits cost little compared to such bytes."""
OWN_AGAIN_MS: Final = 120_000
MOVED_AGAIN_MS: Final = 600_000
_ROUND_MS: Final = 1_000
_STEP_MS: Final = 250
_CROWDED: Final = 50
"""Number of flushes waiting for a thread that ends a round early: by the round's end there would be several times as many."""
_MOVES_AT_ONCE: Final = 256
"""Number of moves in parallel. Moves wait for threads behind the flushes that they are to end."""


@dataclass(frozen=True, slots=True)
class _FlushDemand:
    """Flushes of a topic with own commits since the last round: their rate, made or wanted, and their size.

    ``is_awaited``: whether a reader waits for the topic's records.
    """

    topic: OpenTopic
    per_second: float
    flush_bytes: float
    is_awaited: bool


class CommitModes:
    """Moves between own commits and journals, for the ``topics`` and ``journals`` of this gateway."""

    def __init__(self, journals: Journals, topics: OpenTopics, access: TableAccess) -> None:
        self._journals = journals
        self._topics = topics
        self._clock = access.clock
        self._pool = access.write_pool
        self._metrics = access.metrics
        self._looks_per_second = 1_000 / access.bounds.log_poll_ms
        """Requests a second for the log of one topic with own commits and a waiting reader."""
        self._large_since_ms: dict[str, int] = {}
        """Monotonic time since which the flushes of a topic at a journal would be large, by the topic's name."""
        self._held_back: str | None = None
        self._last_ms = access.clock.monotonic_ms()
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to measure and move topics."""
        self._running = asyncio.create_task(run_supervised(self._round, "the moves between journals and own commits"))

    def stop(self) -> None:
        """Stop measuring and moving topics."""
        if self._running is not None:
            self._running.cancel()

    async def run_once(self) -> None:
        """Measure what the topics did since the last call, and move those that should be elsewhere."""
        now_ms = self._clock.monotonic_ms()
        seconds = max(0.001, (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        wishes, large, shared_count, shared_awaited_count = self._measured(seconds, now_ms)
        small = [wish for wish in wishes if wish.flush_bytes <= SMALL_FLUSH_BYTES and self._may_move(wish.topic)]
        wanted = sum(wish.per_second for wish in wishes)
        looks = sum(wish.is_awaited for wish in wishes) * self._looks_per_second
        sending, awaited = [wish for wish in small if wish.per_second], [wish for wish in small if wish.is_awaited]
        is_many = wanted > OWN_COMMITS_MAX and len(sending) >= TOPICS_MIN
        is_late = wanted > OWN_COMMITS_LEFT and shared_count >= TOPICS_MIN
        if sending and (is_many or is_late):
            reason = f"{wanted:.0f} own commits a second were wanted here, {OWN_COMMITS_MAX:.0f} are kept up with"
            await self._join(sending, reason)
        elif awaited and (
            (looks > LOOKS_MAX and len(awaited) >= TOPICS_MIN)
            or (looks > LOOKS_LEFT and shared_awaited_count >= TOPICS_MIN)
        ):
            reason = f"{looks:.0f} looks a second for readers that wait were wanted here, a journal takes one for all"
            await self._join(awaited, reason)
        if large:
            minutes = OWN_AGAIN_MS // 60_000
            reason = f"its flushes were {OWN_FLUSH_BYTES >> 20} MiB or more for {minutes} minutes"
            await self._move_all(large, joins=False, reason=reason)

    async def _round(self) -> None:
        for _ in range(_ROUND_MS // _STEP_MS):
            await asyncio.sleep(_STEP_MS / 1000)
            if self._pool.waiting_count > _CROWDED:
                break
        await self.run_once()

    def _measured(self, seconds: float, now_ms: int) -> tuple[list[_FlushDemand], list[OpenTopic], int, int]:
        """Return the wishes of topics with own commits, the topics at journals that should get own commits, the number of topics
        at journals that are written to, and the number of those with waiting readers."""
        shared_count = shared_awaited_count = 0
        wishes: list[_FlushDemand] = []
        large: list[OpenTopic] = []
        were_large, self._large_since_ms = self._large_since_ms, {}
        for topic in self._topics:
            appending = topic.appending
            sent, flushes = topic.take_counts()
            is_still = not sent and not flushes and appending.is_idle
            if is_still and not topic.is_awaited:
                continue
            state = topic.log.state
            shared_count += state.attachment is not None and not is_still
            shared_awaited_count += state.attachment is not None and topic.is_awaited
            flush_seconds = max(0.001, state.config.integer("flush.ms") / 1000)
            if state.attachment is None:
                waits = 0 if appending.is_idle else 1
                per_second = min((flushes + waits) / seconds, 1 / flush_seconds)
                wishes.append(_FlushDemand(topic, per_second, sent / max(1, flushes + waits), topic.is_awaited))
            elif sent / seconds * flush_seconds >= OWN_FLUSH_BYTES:
                since_ms = self._large_since_ms[topic.name] = were_large.get(topic.name, now_ms)
                if now_ms - since_ms >= OWN_AGAIN_MS and self._may_move(topic):
                    large.append(topic)
        return wishes, large, shared_count, shared_awaited_count

    async def _join(self, wishes: Sequence[_FlushDemand], reason: str) -> None:
        """Move the topics to a journal. If none may go to one, log why when the reason changes."""
        why = self._journals.refusal_reason
        if why is not None and why != self._held_back:
            _log.warning("%s, and no topic may go to a journal: %s", reason, why)
        self._held_back = why
        if why is None:
            await self._move_all([wish.topic for wish in wishes], joins=True, reason=reason)

    def _may_move(self, topic: OpenTopic) -> bool:
        state = topic.log.state
        is_long_ago = state.last_move is None or self._clock.now_ms() - state.last_move.at_ms >= MOVED_AGAIN_MS
        return state.config.commit_mode == "auto" and is_long_ago

    async def _move_all(self, topics: Sequence[OpenTopic], *, joins: bool, reason: str) -> None:
        waiting = iter(topics)

        async def move() -> None:
            for topic in waiting:
                await self._move(topic, joins=joins, reason=reason)

        await asyncio.gather(*(move() for _ in range(_MOVES_AT_ONCE)))

    async def _move(self, topic: OpenTopic, *, joins: bool, reason: str) -> None:
        topic_id = topic.log.state.topic_id
        if topic_id is None:
            return
        try:
            journal = await self._journals.find_with_room() if joins else None
            with detached_from_call():
                await topic.move(partial(_move_topic, topic_id), joins=journal, leaves=not joins, reason=reason)
        except TidelogError as error:
            _log.warning("topic %s was not moved: %s", topic.name, error.detail)
            return
        self._metrics.topic_moves.labels("journal" if joins else "own").inc()
        _log.info("topic %s %s: %s", topic.name, "went to a journal" if joins else "got its own commits", reason)


def _move_topic(topic_id: str, move: TopicMove) -> MoveTopic:
    return MoveTopic(topic_id=topic_id, move=move)
