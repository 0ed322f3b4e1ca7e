"""The flushes of one writer, of a topic or of a journal: they are counted, pay from savings, and upload in parallel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from gateway.engine.bounds import PARALLEL_ENCODE_BYTES_MIN
from gateway.engine.early_flush import EarlyFlush
from gateway.engine.group_commit import EntryQueue, Group
from gateway.engine.open_table import OpenTable, TableAccess
from gateway.engine.savings_watch import QueueKind
from log_format.delta.change import StagedFile
from log_format.errors import TidelogError

FlushT = TypeVar("FlushT")


class Flushes(Generic[FlushT]):
    """The flushes of one writer. ``kind``: of its queue; ``log``: where failures are told."""

    def __init__(self, table: OpenTable[Any], access: TableAccess, kind: QueueKind, log: logging.Logger) -> None:
        self._table = table
        self._pool = access.write_pool
        self._metrics = access.metrics
        self._log = log
        self.ahead: list[FlushT] = []
        """Flushes under way, in the order of their commits."""
        self.early = EarlyFlush.for_queue(
            kind, table.label, access, lambda: table.seconds_since_write(table.state.modification_time_ms)
        )

    @contextmanager
    def under_way(self, flush: FlushT, group: Group[Any, Any], waiting: EntryQueue[Any]) -> Iterator[None]:
        """Count a flush of the group, which is under way during the block. ``waiting``: what no group has taken."""
        self._metrics.flush_bytes.observe(group.size_bytes)
        self._metrics.flush_batches.observe(len(group.pending))
        self.ahead.append(flush)
        try:
            yield
        except TidelogError as error:
            of_store = f" ({error.__cause__})" if error.__cause__ is not None else ""
            self._log.warning("a flush of %s failed: %s: %s%s", self._table.label, error.code, error.detail, of_store)
            self._metrics.flush_failures.labels(str(error.code)).inc()
            raise
        finally:
            self.ahead.remove(flush)
            self.early.on_ended(waiting, group.pending, asyncio.get_running_loop().time())

    async def upload(self, group: Group[Any, Any], stage: Callable[[], StagedFile | None] | None) -> None:
        """Encode and upload in parallel with other flushes; return when all earlier flushes have ended.

        Args:
            group: a large one is encoded in parallel, too.
            stage: encodes it in a thread; None: it can't be encoded yet.
        """
        started = asyncio.get_running_loop().time()
        if group.size_bytes >= PARALLEL_ENCODE_BYTES_MIN:
            group.allow_next()
        try:
            staged = None if stage is None else await self._pool.run(stage)
            group.allow_next()
            if staged is not None:
                await self._table.stage(staged)
                self._metrics.stage_seconds.observe(asyncio.get_running_loop().time() - started)
        finally:
            await group.wait_for_earlier()

    def acknowledged(self, group: Group[Any, Any]) -> None:
        """Observe how long each batch of the group has waited."""
        now = asyncio.get_running_loop().time()
        for pending in group.pending:
            self._metrics.acknowledgement_seconds.observe(now - pending.arrived)
