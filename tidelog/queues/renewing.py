"""Lock renewal: a thread that renews the locks of records in hand while there are any."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from tidelog import limits
from tidelog.queues.record import QueueRecord
from tidelog.worker_thread import WorkerThread


class Renewer:
    """Holder of records, from their receipt until they are settled or let go. Thread-safe."""

    def __init__(self) -> None:
        self._lock_ms = 0
        self._held: dict[int, QueueRecord] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: WorkerThread | None = None

    def hold(self, records: Iterable[QueueRecord], lock_ms: int) -> None:
        """Start renewing the records' locks, for ``lock_ms`` each time, which is the same for all records."""
        with self._changed:
            self._lock_ms = lock_ms
            self._held.update((id(record), record) for record in records)
            if self._thread is None and not self._closed:
                self._thread = WorkerThread(self._work, name="tidelog-renew")
                self._thread.start()

    def forget(self, records: Iterable[QueueRecord]) -> None:
        """Stop renewing the records."""
        with self._changed:
            for record in records:
                self._held.pop(id(record), None)

    def close(self) -> list[QueueRecord]:
        """Stop renewing all records, and return those that are not settled."""
        with self._changed:
            self._closed = True
            left = [record for record in self._held.values() if not record.is_settled]
            self._held.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.ended(limits.CLOSE_MS / 1000)
        return left

    def _work(self) -> None:
        pause_s = self._lock_ms / 1000 / limits.RENEWALS_PER_LOCK / 4
        due_s = self._lock_ms / 1000 * (1 - 1 / limits.RENEWALS_PER_LOCK)
        while True:
            with self._changed:
                self._changed.wait(pause_s)
                for record in [*self._held.values()]:
                    if record.is_settled or record.lost:
                        del self._held[id(record)]
                if self._closed or not self._held:
                    self._thread = None
                    return
                due = [record for record in self._held.values() if record.locked_until - time.monotonic() <= due_s]
            for record in due:
                record.renew(self._lock_ms)
