"""Watch for commits of other programs to a topic's table: logs each, and puts the table back.

The topic goes on meanwhile: no reader or writer of Tidelog believes such a commit (``log_format.delta.foreign``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from gateway.engine.metrics import EngineMetrics
from gateway.engine.open_table import OpenTable
from log_format.checkpoints.restore_table import RestoreTable
from log_format.clock import Clock
from log_format.delta.foreign import ForeignCommit
from log_format.errors import StoreError, TidelogError
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

PAUSE_MS: Final = 2_000
"""Pause after a failure to put a table back."""
ATTEMPTS_MAX: Final = 30
"""Number of failures after which the topic waits for its next commit, or for maintenance."""

_log = logging.getLogger("gateway.foreign")


class ForeignWatch:
    """Tasks that put back tables which other programs wrote. Used on the event loop only."""

    def __init__(self, store: ObjectStore, clock: Clock, metrics: EngineMetrics) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._running: dict[str, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()
        self.tell: Callable[[str, ForeignCommit], None] = lambda _topic, _commit: None
        """Function that is called with a topic's name and each foreign commit that is newly seen."""

    def consider(self, table: OpenTable[TopicState], before: TopicState) -> None:
        """Judge the new state of a topic's table. If another program wrote it, a task begins to restore it. Returns at once.
        O(1) for a table that no other program wrote."""
        state = table.log.state
        if state.foreign.is_reverted:
            return
        name, last = state.topic, state.foreign.last
        if last is not None and last != before.foreign.last:
            self._metrics.foreign_commits.inc()
            _log.error(
                "another program wrote the table of topic %s (%s): its commit counts for nothing and is put back. "
                "Only Tidelog may write there (docs/operations.md, Other writers)",
                name,
                last,
            )
            self.tell(name, last)
        if name not in self._running and (state.exists or state.foreign.touched):
            task = self._running[name] = asyncio.create_task(self._put_back(name, table))
            task.add_done_callback(partial(self._ended, name))

    async def drain(self) -> None:
        """Wait until the commits under way have ended; maintenance or another gateway puts back what is left."""
        self._ending.set()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def _put_back(self, name: str, table: OpenTable[TopicState]) -> None:
        change = RestoreTable(self._store, name)

        def look(_committer: object) -> None:
            change.look(table.log.state, self._clock.now_ms())

        failures = 0
        while failures < ATTEMPTS_MAX and not self._ending.is_set() and not table.log.state.foreign.is_reverted:
            try:
                committed = await table.commit_serialized(change, prepare=look)
            except (TidelogError, StoreError) as problem:
                failures += 1
                _log.warning("the table of topic %s is not put back yet: %s", name, problem)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), PAUSE_MS / 1000)
                continue
            if not committed.attempts:
                return
            failures = 0
            _log.info("the table of topic %s is put back: %d files named", name, committed.result)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        self._running.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("putting back the table of topic %s met a defect", name, exc_info=error)
