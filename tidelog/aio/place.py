"""The future of a record's place, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from tidelog.producer.delivery import RecordFuture
from tidelog.types.record import RecordMetadata


class Place(asyncio.Future[RecordMetadata]):
    """Gets what ``future`` gets. Whoever awaits it waits for the record, as ``future.result`` does. Cancelling it changes nothing
    about the record."""

    def __init__(self, future: RecordFuture) -> None:
        super().__init__()
        self._of = future
        future.add_done_callback(self._told)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Not to be sent for the sake of company that does not come."""
        if not self.done():
            self._of.want(asyncio.current_task())
        return super().__await__()

    def _told(self, _: Future[RecordMetadata]) -> None:
        """In the sending thread."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits
            self.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.done():
            return
        error = self._of.exception()
        if error is None:
            self.set_result(self._of.result())
        else:
            self.set_exception(error)
