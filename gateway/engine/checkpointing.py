"""Checkpoints of one table, written by the committing gateway after its commits
(docs/decisions/003-gateway-writes-checkpoints.md).

One is written at a time, and no request waits for it. A failure is logged and tried again later: without a fresh checkpoint a
table works, and only loads more slowly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic

from gateway.engine.bounds import (
    ARCHIVED_SEGMENTS_REWRITTEN_MAX,
    CHECKPOINT_RETRY_MS,
    CHECKPOINTS_LEFT_MAX,
    EngineBounds,
)
from gateway.engine.metrics import EngineMetrics
from gateway.engine.pool import Pool
from log_format.checkpoints.checkpoint import is_checkpoint_due, write_table_checkpoint
from log_format.clock import Clock
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.log import TableLog
from log_format.delta.table import NO_LOG, StateT
from log_format.errors import BackOff, CorruptData, StoreUnavailable
from log_format.journal.state import JournalState

_log = logging.getLogger("gateway.checkpoint")


class Checkpointing(Generic[StateT]):
    """Checkpoints of one table. Used on the event loop only. ``files``: returns how many data files a state has."""

    __slots__ = (
        "_bounds",
        "_clock",
        "_files",
        "_left_count",
        "_log",
        "_looked",
        "_metrics",
        "_newest",
        "_not_before_ms",
        "_pool",
        "_running",
    )

    def __init__(
        self,
        log: TableLog[StateT],
        clock: Clock,
        *,
        files: Callable[[StateT], int],
        pool: Pool,
        metrics: EngineMetrics,
        bounds: EngineBounds,
    ) -> None:
        self._log = log
        self._files = files
        self._clock = clock
        self._pool = pool
        self._metrics = metrics
        self._bounds = bounds
        self._newest: int | None = None
        """Version of the newest checkpoint known here; None if there is none or it was not looked for yet."""
        self._looked = False
        self._left_count = 0
        """How many checkpoints in a row were left to maintenance, since a large archive had changed."""
        self._not_before_ms = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no checkpoint is being written."""
        return self._running is None

    def consider(self, state: StateT) -> None:
        """Start writing a checkpoint if one is due at ``state``. Returns immediately."""
        if self._running is not None or state.version == NO_LOG or self._clock.monotonic_ms() < self._not_before_ms:
            return
        if self._is_due(state):
            self._running = asyncio.create_task(self._write(state))
            self._running.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Wait for the checkpoint that is being written."""
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _write(self, state: StateT) -> None:
        try:
            if not self._looked:
                # Other gateways write checkpoints too, and this gateway may have just started.
                self._newest = await self._pool.run(read_hinted_version, self._log.store, self._log.table.root)
                self._looked = True
                if not self._is_due(state):
                    return
            is_left = self._left_count < CHECKPOINTS_LEFT_MAX
            was_written = await self._pool.run(
                write_table_checkpoint,
                self._log.store,
                self._log.table.root,
                state.version,
                self._clock.now_ms(),
                journal=state.topics if isinstance(state, JournalState) else None,
                **({"archived_max": ARCHIVED_SEGMENTS_REWRITTEN_MAX} if is_left else {}),
            )
            self._left_count = 0 if was_written else self._left_count + 1
        except (StoreUnavailable, CorruptData, BackOff) as problem:
            self._not_before_ms = self._clock.monotonic_ms() + CHECKPOINT_RETRY_MS
            self._looked = False
            self._metrics.checkpoints.labels("failed").inc()
            _log.warning("no checkpoint of %s at version %d: %s", self._log.table.label, state.version, problem)
            return
        self._newest = state.version
        self._metrics.checkpoints.labels("written").inc()

    def _is_due(self, state: StateT) -> bool:
        return is_checkpoint_due(
            state.version,
            self._newest,
            self._files(state),
            interval_min=self._bounds.checkpoint_interval_min,
            interval_max=self._bounds.checkpoint_interval_max,
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a checkpoint failed", exc_info=error)
