"""Notices that another program wrote a topic's table, tells people of it, and puts the table back.

The topic goes on meanwhile: no reader or writer of Tidelog believes such a commit (``log_format.delta.foreign``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from gateway.engine.metrics import EngineMetrics
from log_format.checkpoints.put_back import PutBack
from log_format.clock import Clock
from log_format.delta.change import TableChange
from log_format.delta.committer import Committed, Committer
from log_format.delta.foreign import ForeignCommit
from log_format.errors import StoreError, TidelogError
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

PAUSE_MS: Final = 2_000
"""After a failure: a store that fails is asked again later."""
ATTEMPTS_MAX: Final = 30
"""Then the topic waits for its next commit, or for maintenance."""

_log = logging.getLogger("gateway.foreign")


class WatchedTopic(Protocol):
    """An open topic."""

    name: str

    @property
    def own_state(self) -> TopicState:
        """The state of its own table."""
        ...

    async def commit_in_turn(
        self,
        change: TableChange[TopicState, int],
        begun: asyncio.Event | None = None,
        *,
        prepare: Callable[[Committer[TopicState]], object] | None = None,
    ) -> Committed[TopicState, int]:
        """See ``OpenTable``."""
        ...


class ForeignWatch:
    """Belongs to the event loop."""

    def __init__(self, store: ObjectStore, clock: Clock, metrics: EngineMetrics) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()
        self.tell: Callable[[str, ForeignCommit], None] = lambda _topic, _commit: None
        """Called with a topic's name and each foreign commit that is newly seen."""

    def consider(self, topic: WatchedTopic, before: TopicState, state: TopicState) -> None:
        """Look at the topic's new state. Returns at once. O(1) for a table that no other program wrote."""
        if state.foreign.is_put_back:
            return
        last = state.foreign.last
        if last is not None and last != before.foreign.last:
            self._metrics.foreign_commits.inc()
            _log.error(
                "another program wrote the table of topic %s (%s): its commit counts for nothing and is put back. "
                "Only Tidelog may write there (docs/operations.md, Other writers)",
                topic.name,
                last,
            )
            self.tell(topic.name, last)
        if topic.name not in self._running and (state.exists or state.foreign.touched):
            task = self._running[topic.name] = asyncio.create_task(self._put_back(topic))
            task.add_done_callback(partial(self._ended, topic.name))

    async def drain(self) -> None:
        """Return when the commits under way have ended; maintenance or another gateway goes on with what is left."""
        self._ending.set()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _put_back(self, topic: WatchedTopic) -> None:
        change = PutBack(self._store, topic.name)

        def look(_committer: object) -> None:
            change.look(topic.own_state, self._clock.now_ms())

        failures = 0
        while failures < ATTEMPTS_MAX and not self._ending.is_set() and not topic.own_state.foreign.is_put_back:
            try:
                committed = await topic.commit_in_turn(change, prepare=look)
            except (TidelogError, StoreError) as problem:
                failures += 1
                _log.warning("the table of topic %s is not put back yet: %s", topic.name, problem)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), PAUSE_MS / 1000)
                continue
            if not committed.attempts:
                return
            failures = 0
            _log.info("the table of topic %s is put back: %d files named", topic.name, committed.result)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._running.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("putting back the table of topic %s met a defect", name, exc_info=error)
