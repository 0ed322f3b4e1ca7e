"""What this gateway has known of every topic for a while: to sort topics by something else than their names, and to add them up.

1. Topics are looked at in the background, ``PARALLEL_LIST_LOADS_MAX`` at a time, and only while callers ask. A caller waits
   ``WAIT_MS`` for the looks at most, and gets what is known by then.
2. A look lasts for as long as the caller says, or for ``AGE_MS_PER_TOPIC`` a topic of the list if that is longer. So the store
   gets about 33 requests a second at most, however many topics there are, once all of them are loaded.
3. A topic takes some hundred bytes here, whether it is open or not. At most ``LISTED_NAMES_MAX`` are kept.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.engine.bounds import PARALLEL_LIST_LOADS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.tasks.parallel import run_parallel
from log_format.clock import Clock
from log_format.errors import CorruptData, TidelogError
from log_format.topic.state import TopicState

LISTED_NAMES_MAX: Final = 50_000
"""Number of topic names up to which a listing is kept (about 5 MB), and of topics whose figures are (15 MB)."""
AGE_MS_PER_TOPIC: Final = 30
WAIT_MS: Final = 1_000
_RATE_MS_MIN: Final = 1_000
"""Least time between two looks that tell a rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFigures:
    """Figures of a topic at ``looked_ms`` (monotonic). ``rate``: records a second between the last two looks, None before.
    ``problem``: why its log can't be read. ``topic_id`` None and no ``problem``: it does not exist."""

    looked_ms: int
    topic_id: str | None = None
    partition_count: int = 0
    record_count: int = 0
    size_bytes: int = 0
    segment_count: int = 0
    produced: int = 0
    rate: float | None = None
    problem: CorruptData | None = None

    @property
    def exists(self) -> bool:
        """Whether there is such a topic, damaged or not."""
        return self.topic_id is not None or self.problem is not None


def figures_of(state: TopicState, looked_ms: int, before: TopicFigures | None) -> TopicFigures:
    """Return the figures of a state. ``before``: those of an earlier look."""
    produced = int(state.next_offsets.sum())
    rate = None
    if before is not None and before.topic_id == state.topic_id is not None:
        passed_ms = looked_ms - before.looked_ms
        rate = before.rate if passed_ms < _RATE_MS_MIN else (produced - before.produced) * 1000 / passed_ms
        looked_ms = before.looked_ms if passed_ms < _RATE_MS_MIN else looked_ms
        produced = before.produced if passed_ms < _RATE_MS_MIN else produced
    return TopicFigures(
        looked_ms=looked_ms,
        topic_id=state.topic_id,
        partition_count=state.partition_count,
        record_count=int(state.next_offsets.sum() - state.log_starts.sum()),
        size_bytes=sum(state.manifest.size_bytes(number) for number in range(state.partition_count)),
        segment_count=state.manifest.segment_count(),
        produced=produced,
        rate=rate,
    )


class TopicSurvey:
    """The figures of all topics that callers have asked for."""

    def __init__(self, topics: OpenTopics, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock
        self._known: dict[str, TopicFigures] = {}
        self._wanted: dict[str, None] = {}
        """Names to look at, in order."""
        self._running: asyncio.Task[None] | None = None
        self._problem: TidelogError | None = None
        """Why the last looks ended early."""

    async def figures(self, names: Sequence[str], age_ms_max: int) -> Mapping[str, TopicFigures]:
        """Return what is known of these topics and maybe of others, after at most ``WAIT_MS``. ``age_ms_max``: how stale it
        may be, if there are few topics.

        Raises what ``OpenTopics.fresh`` raises if nothing is known of any of them.
        """
        if len(self._known) > LISTED_NAMES_MAX:
            self._known = {name: self._known[name] for name in names if name in self._known}
        since_ms = self._clock.monotonic_ms() - max(age_ms_max, AGE_MS_PER_TOPIC * len(names))
        stale = [name for name in names if (known := self._known.get(name)) is None or known.looked_ms < since_ms]
        if stale:
            self._wanted = dict.fromkeys(stale) | self._wanted
            if self._running is None or self._running.done():
                self._running = asyncio.create_task(self._look_at_wanted())
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=WAIT_MS / 1000)
            if self._problem is not None and not any(name in self._known for name in names):
                raise self._problem
        return self._known

    async def look(self, names: Collection[str], age_ms_max: int) -> list[TopicState]:
        """Look at these topics, unless that was done ``age_ms_max`` ago, and return the states of those that exist and can be
        read, in order. Raises what ``OpenTopics.fresh`` raises."""
        arrival_ms = self._clock.monotonic_ms() - age_ms_max

        async def look(name: str) -> TopicState | None:
            return await self._look(name, arrival_ms)

        found = await run_parallel(look, names, limit=PARALLEL_LIST_LOADS_MAX)
        return [state for state in found if state is not None]

    async def drain(self) -> None:
        """Look at no further topic."""
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait((running,))

    async def _look_at_wanted(self) -> None:
        self._problem = None
        try:
            while self._wanted:
                names = list(islice(self._wanted, PARALLEL_LIST_LOADS_MAX))
                await self.look(names, 0)
                for name in names:
                    self._wanted.pop(name, None)
        except TidelogError as problem:
            self._problem = problem
            self._wanted.clear()

    async def _look(self, name: str, arrival_ms: int) -> TopicState | None:
        now_ms = self._clock.monotonic_ms()
        try:
            topic = await self._topics.fresh(name, arrival_ms)
        except CorruptData as problem:
            self._known[name] = TopicFigures(looked_ms=now_ms, problem=problem)
            return None
        state = topic.state
        if not state.exists:
            self._known[name] = TopicFigures(looked_ms=now_ms)
            return None
        self._known[name] = figures_of(state, _observed_ms(topic) or now_ms, self._known.get(name))
        return state


def _observed_ms(topic: OpenTopic) -> int | None:
    """Return when the topic was looked at last."""
    journal = topic.journal
    return (topic.log if journal is None else journal.log).observed_ms
