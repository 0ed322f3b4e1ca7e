"""``QueueConsumer``: consumption of a queue."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Unpack

from log_format.errors import TidelogError
from tidelog import limits
from tidelog.calls.queues import QueueCalls
from tidelog.closing import Closing
from tidelog.deadline import Deadline
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.queues.record import QueueRecord
from tidelog.queues.renewing import Renewer
from tidelog.queues.settings import QueueConsumerSettings
from tidelog.queues.settling import Settler
from tidelog.types.record import Record
from tidelog.types.sealing import Sealing

_logger = logging.getLogger("tidelog.queues")


class QueueConsumer(Closing):
    """Receiver of a queue's records, each locked for it and settled by itself.

    ::

        with QueueConsumer("thumbnails", bootstrap_servers="http://127.0.0.1:8080") as queue:
            queue.run(make_thumbnail, workers=4)

    or, by hand::

        for record in queue:
            record.accept()

    Any number of consumers, processes and machines may share a queue. Promises: an accepted record is not delivered again; any
    other record is, also after a crash, so a handler may see a record twice. Records come in no order, unless the queue's
    ``order`` is ``key``.

    A thread renews the locks of the records in hand: those received and not handed out yet; those that ``poll`` or an iteration
    handed out, until they are settled or the next ones are requested; and those that ``run`` handles. A record whose lock
    expires nevertheless, because no gateway could be reached, is delivered again, and settling it raises ``LeaseExpired``.

    ``poll`` and iteration are for one thread at a time. Records may be settled from any thread.

    Args:
        max_poll_records: records received, and so locked, at a time (1 to 100,000).
        fetch_max_bytes: largest answer.
        lock_ms: how long a lock lasts without renewal (1 s to 12 h); None: the queue's setting.
        envelope: decrypts each value (``tidelog.encryption``); a record that it can't decrypt is not handed out, but released
            as if its handler had raised.
        client_id: text by which operators recognize this client.
        consumer_timeout_ms: iteration and ``run`` end after this long without a record; None: never.
        request_timeout_ms, api_timeout_ms, compression: as for ``Consumer``.
        bootstrap_servers, connection: as for ``Producer``.
    """

    def __init__(
        self,
        queue: str,
        *,
        bootstrap_servers: str | Sequence[str] | None = None,
        max_poll_records: int = limits.RECEIVE_RECORDS,
        fetch_max_bytes: int = limits.RECEIVE_BYTES,
        lock_ms: int | None = None,
        envelope: Sealing | None = None,
        client_id: str | None = None,
        consumer_timeout_ms: float | None = None,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        api_timeout_ms: float = limits.API_TIMEOUT_MS,
        compression: Literal["gzip", "zstd"] | None = None,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the consumer without connecting yet. Raises ``ValueError`` for a value out of range."""
        self._settings = QueueConsumerSettings(
            max_poll_records=max_poll_records,
            fetch_max_bytes=fetch_max_bytes,
            lock_ms=lock_ms,
            envelope=envelope,
            client_id=client_id,
            consumer_timeout_ms=consumer_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            api_timeout_ms=api_timeout_ms,
            compression=compression,
        )
        self._transport = Transport(
            bootstrap_servers, request_timeout_ms=request_timeout_ms, accept_encoding=compression, **connection
        )
        # Settlements still work while a receive is being aborted.
        self._settling_transport = Transport(bootstrap_servers, request_timeout_ms=request_timeout_ms, **connection)
        self._calls = QueueCalls(self._transport, queue)
        self._settler = Settler(QueueCalls(self._settling_transport, queue), timeout_ms=api_timeout_ms)
        self._lock_ms = lock_ms
        """None until the queue's own setting is known."""
        self._renewer = Renewer()
        weakref.finalize(self, _end, self._renewer, self._transport, self._settling_transport)
        self._ready: deque[QueueRecord] = deque()
        """Records received and not handed out yet."""
        self._handed: list[QueueRecord] = []
        self._stopped = threading.Event()
        self._closed = False

    def poll(self, timeout_ms: float = limits.POLL_TIMEOUT_MS, max_records: int | None = None) -> list[QueueRecord]:
        """Return the next records, at most ``max_records``; wait up to ``timeout_ms`` for the first, else return an empty list.

        Raises ``UnknownQueue``; and, after ``api_timeout_ms`` of failures, the last of them.
        """
        if max_records is not None and max_records < 1:
            raise ValueError(f"max_records is {max_records}, below 1")
        wanted = self._settings.max_poll_records if max_records is None else max_records
        self._stop_renewing()
        self.wait(timeout_ms, wanted)
        while self._ready and len(self._handed) < wanted:
            record = self._ready.popleft()
            if not record.lost:
                self._begin(record)
                self._handed.append(record)
        return list(self._handed)

    def wait(self, timeout_ms: float | None, max_records: int | None = None, begun_max: int | None = None) -> bool:
        """Wait up to ``timeout_ms`` until ``poll`` has records, and return whether it has. ``begun_max``: as for ``take``."""
        if not self._ready:
            self._stop_renewing()
            wanted = (
                self._settings.max_poll_records
                if max_records is None
                else min(max_records, self._settings.max_poll_records)
            )
            self._ready.extend(self.take(wanted, timeout_ms, begun_max))
        return bool(self._ready)

    def has_ready(self) -> bool:
        """Return whether ``poll`` has records without asking a gateway."""
        return bool(self._ready)

    def __iter__(self) -> Iterator[QueueRecord]:
        """Yield records without end, until ``stop``, or until none came for ``consumer_timeout_ms``."""
        while not self._stopped.is_set() and self.wait(self._settings.consumer_timeout_ms, begun_max=1):
            yield from self.poll(0, 1)

    def run(self, handler: Callable[[QueueRecord], Any], *, workers: int = 1) -> None:
        """Call ``handler`` with each record, in ``workers`` threads, until ``stop`` or ``consumer_timeout_ms`` without a
        record.

        A record is accepted when its handler returns without settling it. When the handler raises, the record is released: it
        comes again after the queue's back-off, and becomes a dead letter after ``max_deliveries``. A handler that can never
        succeed calls ``record.reject(reason)``. Running handlers finish before this returns. ``SystemExit`` and
        ``KeyboardInterrupt`` of a handler end this call, and are raised by it. Raises as ``poll``.
        """
        if workers < 1:
            raise ValueError(f"workers is {workers}, below 1")
        # One spare record per worker, so that no worker waits for the gateway.
        slots = WorkerSlots(2 * workers)

        ended_by: list[BaseException] = []

        def handle(record: QueueRecord) -> None:
            try:
                self._handle(handler, record)
            except BaseException as error:  # noqa: BLE001 - raised by ``run``
                ended_by.append(error)
                self.stop()
            finally:
                slots.free()

        idle = Deadline(self._settings.consumer_timeout_ms)
        with ThreadPoolExecutor(workers, thread_name_prefix="tidelog-work") as pool:
            try:
                while not self._stopped.is_set() and not idle.passed:
                    wait_ms = min(idle.remaining_ms(), limits.GROUP_WAIT_MS)
                    wanted = min(slots.wait_for_free(), self._settings.max_poll_records)
                    records = self.take(wanted, wait_ms, max(0, workers - slots.taken_count))
                    if records or slots.taken_count:
                        idle = Deadline(self._settings.consumer_timeout_ms)
                    for record in records:
                        slots.take()
                        pool.submit(handle, record)
            except BaseException:
                self.stop()  # records that wait for a worker are given back
                raise
        with contextlib.suppress(TidelogError):
            self.flush()  # failed settlements were logged, and their records are delivered again
        if ended_by:
            raise ended_by[0]

    def stop(self) -> None:
        """End ``run`` and iterations within about a second. May be called from any thread or signal handler."""
        self._stopped.set()

    def flush(self, timeout_ms: float | None = None) -> bool:
        """Wait until all settlements are answered; return False if ``timeout_ms`` passed first. Raises the first error since
        the last call."""
        return self._settler.flush(None if timeout_ms is None else timeout_ms / 1000)

    def close(self) -> None:
        """Release unsettled records, send pending settlements, and close the connections. A second call does nothing."""
        if self._closed or not self._transport.is_own_process:
            return
        self._closed = True
        self.stop()
        for record in self._renewer.close():
            record.release_unsettled()
        self._settler.close(limits.CLOSE_MS / 1000)
        self._transport.close(abort=True)
        self._settling_transport.close(abort=True)

    def _handle(self, handler: Callable[[QueueRecord], Any], record: QueueRecord) -> None:
        if record.lost or self._stopped.is_set():
            record.release_unsettled()
            return
        try:
            self._begin(record)
            handler(record)
        except BaseException as error:  # the user's code; the record is delivered again
            _logger.warning("handling %r failed: %r", record, error, exc_info=error)
            record.release_unsettled()
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise
        else:
            if not record.is_settled:
                record.accept()

    def _begin(self, record: QueueRecord) -> None:
        assert self._lock_ms is not None, "a record was received under a lock"
        record.begin(self._lock_ms)

    def take(self, records_max: int, timeout_ms: float | None, begun_max: int | None = None) -> list[QueueRecord]:
        """Return the next records, and renew their locks until they are settled. For one thread at a time. Raises as ``poll``.

        The first ``begun_max`` records (None: all) count as delivered immediately; the others when their ``begin`` is called.
        """
        deadline = Deadline(timeout_ms)
        if self._lock_ms is None:
            self._lock_ms = self._calls.describe(Deadline(self._settings.api_timeout_ms)).lock_ms
        while True:
            asked_at = time.monotonic()
            found = self._calls.receive(
                records_max=records_max,
                bytes_max=self._settings.fetch_max_bytes,
                wait_ms=int(min(deadline.remaining_ms(), limits.GROUP_WAIT_MS)),
                lock_ms=self._lock_ms,
                client_id=self._settings.client_id,
                deadline=Deadline(self._settings.api_timeout_ms),
                begun_max=begun_max,
            )
            # Counted from the request's start: the lock can't end before that.
            locked_until = asked_at + self._lock_ms / 1000
            records = [
                QueueRecord(each, self._settler, locked_until, counts=begun_max is None or at < begun_max)
                for at, each in enumerate(found)
            ]
            if self._settings.envelope is not None:
                both = zip(records, found, strict=True)
                records = [record for record, each in both if _decrypt(record, each.stored(), self._settings.envelope)]
            if records or deadline.passed or self._stopped.is_set():
                self._renewer.hold(records, self._lock_ms)
                return records

    def _stop_renewing(self) -> None:
        self._renewer.forget(self._handed)
        self._handed = []


def _decrypt(record: QueueRecord, stored: Record, envelope: Sealing) -> bool:
    """Replace the encrypted value by the plain one, and return True; release a record that can't be decrypted."""
    try:
        record.value = envelope.open(stored)
    except Exception as error:  # noqa: BLE001 - the user's code; the record is delivered again
        _logger.warning("opening %r failed: %r", record, error)
        record.release()
        return False
    return True


def _end(renewer: Renewer, *transports: Transport) -> None:
    """Give up locks and connections of a garbage-collected consumer."""
    renewer.close()
    for transport in transports:
        transport.close(abort=True)


class WorkerSlots:
    """Counter of the records that ``run`` has given to workers."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.taken_count = 0
        self._changed = threading.Condition()

    def wait_for_free(self) -> int:
        """Wait until a place is free, and return the number of free slots."""
        with self._changed:
            self._changed.wait_for(lambda: self.taken_count < self._count)
            return self._count - self.taken_count

    def take(self) -> None:
        """Occupy one place."""
        with self._changed:
            self.taken_count += 1

    def free(self) -> None:
        """Free one place."""
        with self._changed:
            self.taken_count -= 1
            self._changed.notify()
