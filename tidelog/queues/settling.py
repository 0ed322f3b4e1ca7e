"""Settlements in flight: those submitted while a request is under way share the next one.

1. Consecutive records under one lease with the same action are sent as one range. A range is settled whole or not at all, so
   the records of a refused range are sent again one by one.
2. A failed settlement loses nothing: the record's lock expires, and the record is delivered again.
3. The thread lives only while there is something to send.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from typing import Any

import msgspec

from tidelog import limits
from tidelog.calls.queues import QueueCalls, Settlement
from tidelog.deadline import Deadline
from tidelog.errors import ClientClosed, LeaseExpired
from tidelog.worker_thread import WorkerThread

_logger = logging.getLogger("tidelog.queues")


class PendingSettlement(Future[None]):
    """Future that is done once the gateway has answered: ``result()`` raises ``LeaseExpired`` or the gateway's error.
    Awaitable.

    It can't be cancelled: cancelling a task that awaits it does not stop the settlement.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, None]:
        """Await the answer in the running loop."""
        return asyncio.wrap_future(self).__await__()


class Settler:
    """Sender of one queue's settlements. Thread-safe."""

    def __init__(self, calls: QueueCalls, *, timeout_ms: float) -> None:
        self._calls = calls
        self._timeout_ms = timeout_ms
        self._waiting: deque[tuple[Settlement, PendingSettlement]] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._failed: Exception | None = None
        self._thread: WorkerThread | None = None

    @property
    def queue(self) -> str:
        """Name of the queue."""
        return self._calls.queue

    def submit(self, settlement: Settlement) -> PendingSettlement:
        """Send the settlement of one record soon."""
        settling = PendingSettlement()
        with self._changed:
            if self._closed:
                settling.set_exception(
                    ClientClosed("the client was closed before the settlement was sent: the record is delivered again")
                )
                return settling
            self._waiting.append((settlement, settling))
            if not self._busy:
                self._busy = True
                self._thread = WorkerThread(self._work, name="tidelog-settle")
                self._thread.start()
        return settling

    def flush(self, timeout_s: float | None) -> bool:
        """Wait until nothing is in flight; return False if ``timeout_s`` passed first. Raises the first error since the last
        call."""
        with self._changed:
            is_done = self._changed.wait_for(lambda: not self._busy, timeout_s)
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        return is_done

    def close(self, timeout_s: float) -> None:
        """Accept no more settlements, and wait until the submitted ones are answered and the thread has ended."""
        with self._changed:
            self._closed = True
        if self._thread is not None:
            self._thread.ended(timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._busy = False
                    self._changed.notify_all()
                    return
                count = min(len(self._waiting), limits.SETTLEMENTS_MAX)
                batch = [self._waiting.popleft() for _ in range(count)]
            self._send([_Part(settlement, [settling]) for settlement, settling in batch])

    def _send(self, parts: list[_Part]) -> None:
        merged = _merged(parts)
        try:
            results = self._calls.settle([part.settlement for part in merged], Deadline(self._timeout_ms))
        except Exception as error:  # noqa: BLE001 - unseen in a thread: the futures raise it
            self._fail(merged, error)
            return
        again: list[_Part] = []
        for part, result in zip(merged, results, strict=True):
            if result.settled:
                for settling in part.settlings:
                    settling.set_result(None)
            elif len(part.settlings) > 1:
                again += part.single()
            else:
                one = part.settlement
                place = f"{one.topic}/{one.partition}/{one.first_offset}"
                expired = LeaseExpired(f"The lock of {place} has expired.", status=409)
                if one.action == "renew":
                    part.settlings[0].set_exception(expired)
                else:
                    self._fail([part], expired)
        for first in range(0, len(again), limits.SETTLEMENTS_MAX):
            self._send_singly(again[first : first + limits.SETTLEMENTS_MAX])

    def _send_singly(self, parts: list[_Part]) -> None:
        # Every second part per request, so that no two merge again.
        for some in (parts[::2], parts[1::2]):
            if some:
                self._send(some)

    def _fail(self, parts: Iterable[_Part], error: Exception) -> None:
        _logger.warning("records are not settled, and will be delivered again: %s", error)
        with self._changed:
            self._failed = self._failed or error
        for part in parts:
            for settling in part.settlings:
                settling.set_exception(error)


class _Part(msgspec.Struct):
    """A settlement of some records, and their futures."""

    settlement: Settlement
    settlings: list[PendingSettlement]

    def single(self) -> list[_Part]:
        first = self.settlement.first_offset
        return [
            _Part(
                msgspec.structs.replace(self.settlement, first_offset=first + index, last_offset=first + index),
                [settling],
            )
            for index, settling in enumerate(self.settlings)
        ]


def _merged(parts: list[_Part]) -> list[_Part]:
    found: list[_Part] = []
    for part in sorted(parts, key=lambda each: each.settlement.place()):
        last = found[-1] if found else None
        if last is not None and last.settlement.merges_with(part.settlement):
            end = part.settlement.last_offset
            found[-1] = _Part(
                msgspec.structs.replace(last.settlement, last_offset=end), last.settlings + part.settlings
            )
        else:
            found.append(part)
    return found
