"""asyncio future of a record's place."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from tidelog.producer.delivery import RecordFuture
from tidelog.types.record import RecordMetadata


class AsyncRecordFuture(asyncio.Future[RecordMetadata]):
    """Mirror of a ``RecordFuture`` in the event loop. Awaiting it counts as waiting for the record, like
    ``RecordFuture.result``. Cancelling it does not affect the record."""

    def __init__(self, future: RecordFuture) -> None:
        super().__init__()
        self._sync_future = future
        future.add_done_callback(self._schedule_settling)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Await the place, and tell the batch that a task waits, so that it need not linger for more records."""
        if not self.done():
            self._sync_future.note_waiter(asyncio.current_task())
        return super().__await__()

    def _schedule_settling(self, _: Future[RecordMetadata]) -> None:
        """Schedule the result in the event loop. Called in the sending thread."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed: no task is waiting
            self.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.done():
            return
        error = self._sync_future.exception()
        if error is None:
            self.set_result(self._sync_future.result())
        else:
            self.set_exception(error)
