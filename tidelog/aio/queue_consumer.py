"""``QueueConsumer`` for asyncio.

Gateways are waited for in threads, and records are handed out in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, Unpack

from log_format.errors import TidelogError
from tidelog import limits
from tidelog.aio.in_thread import in_thread
from tidelog.aio.keywords import QueueConsumerKeywords
from tidelog.closing import AsyncClosing
from tidelog.deadline import Deadline
from tidelog.queues.consumer import QueueConsumer as BlockingQueueConsumer
from tidelog.queues.record import QueueRecord

_T = TypeVar("_T")
_logger = logging.getLogger("tidelog.queues")


class QueueConsumer(AsyncClosing):
    """asyncio version of ``tidelog.QueueConsumer``. ``await record.accept()`` waits until the settlement is stored; it is sent
    even if not awaited."""

    def __init__(self, queue: str, **settings: Unpack[QueueConsumerKeywords]) -> None:
        """Create the consumer, as ``tidelog.QueueConsumer``. Raises ``ValueError``."""
        self._idle_ms = settings.get("consumer_timeout_ms")
        self._consumer = BlockingQueueConsumer(queue, **settings)
        self._receiving: asyncio.Future[Any] | None = None
        self._stopped = False

    async def poll(
        self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_records: int | None = None
    ) -> list[QueueRecord]:
        """Return the next records, as ``tidelog.QueueConsumer.poll``. A cancelled poll loses nothing: the next one has its
        records."""
        if not self._consumer.has_ready():
            await self._run_serialized(partial(self._consumer.wait, timeout_ms, max_records))
        return self._consumer.poll(0, max_records) if self._consumer.has_ready() else []

    async def __aiter__(self) -> AsyncIterator[QueueRecord]:
        """Yield records, as iteration of ``tidelog.QueueConsumer``."""
        idle = Deadline(self._idle_ms)
        while not self._stopped and not idle.passed:
            if not self._consumer.has_ready():
                wait_ms = min(idle.remaining_ms(), limits.AIO_SLICE_MS)
                await self._run_serialized(partial(self._consumer.wait, wait_ms, begun_max=1))
            for record in self._consumer.poll(0, 1) if self._consumer.has_ready() else ():
                yield record
                idle = Deadline(self._idle_ms)

    async def run(self, handler: Callable[[QueueRecord], Awaitable[Any]], *, workers: int = 1) -> None:
        """Await ``handler`` for up to ``workers`` records concurrently, as ``tidelog.QueueConsumer.run``."""
        if workers < 1:
            raise ValueError(f"workers is {workers}, below 1")
        tasks: set[asyncio.Task[None]] = set()
        idle = Deadline(self._idle_ms)
        try:
            while not self._stopped and not idle.passed:
                if len(tasks) == workers:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                wait_ms = min(idle.remaining_ms(), limits.AIO_SLICE_MS)
                taking = partial(self._consumer.take, workers - len(tasks), wait_ms)
                records = await self._run_serialized(taking, on_abandoned=_release_all)
                if records or tasks:
                    idle = Deadline(self._idle_ms)
                for record in records:
                    task = asyncio.ensure_future(_handled(handler, record))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    # A task cancelled before its first step never runs its own error handling.
                    task.add_done_callback(lambda _, record=record: record.release_unsettled())  # type: ignore[misc]
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
        with contextlib.suppress(TidelogError):
            await self.flush()  # failed settlements were logged, and their records are delivered again

    def stop(self) -> None:
        """End ``run`` and iterations, as ``tidelog.QueueConsumer.stop``."""
        self._stopped = True
        self._consumer.stop()

    async def flush(self, timeout_ms: float | None = None) -> bool:
        """Wait for all settlements, as ``tidelog.QueueConsumer.flush``."""
        return await in_thread(partial(self._consumer.flush, timeout_ms))

    async def close(self) -> None:
        """Close, as ``tidelog.QueueConsumer.close``."""
        self._stopped = True
        await asyncio.shield(in_thread(self._consumer.close))

    async def _run_serialized(self, call: Callable[[], _T], *, on_abandoned: Callable[[_T], None] | None = None) -> _T:
        """Run the call in a thread, after any call that a cancelled task left running. If this one is cancelled,
        ``on_abandoned`` gets its result."""
        if self._receiving is not None and not self._receiving.done():
            await asyncio.wait({self._receiving})
        running = self._receiving = in_thread(call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if on_abandoned is not None:
                running.add_done_callback(partial(_pass_on, on_abandoned))
            raise


async def _handled(handler: Callable[[QueueRecord], Awaitable[Any]], record: QueueRecord) -> None:
    record.has_begun = True  # received for a free worker, so the delivery is counted already
    try:
        await handler(record)
    except BaseException as error:
        record.release_unsettled()
        if not isinstance(error, Exception):
            raise
        _logger.warning("handling %r failed: %r", record, error, exc_info=error)
    else:
        if not record.is_settled:
            record.accept()


def _pass_on(on_abandoned: Callable[[_T], None], done: asyncio.Future[_T]) -> None:
    if not done.cancelled() and done.exception() is None:
        on_abandoned(done.result())


def _release_all(records: list[QueueRecord]) -> None:
    for record in records:
        record.release_unsettled()
