"""Threads that carry batches from the send buffer to the gateways, and their shutdown.

There are as many threads as batches can be in flight, at most ``max_in_flight``. They start with the first record and end with
``close``. They hold no reference to the user's ``Producer``, so it can be garbage-collected, which closes them too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading

from log_format.errors import TidelogError
from tidelog.bodies.table_chunk import TableChunk
from tidelog.deadline import Deadline
from tidelog.errors import DeliveryFailed, OutcomeUnknown, TransactionAborted
from tidelog.http.transport import Transport
from tidelog.producer.send_buffer import Sendable, SendBuffer
from tidelog.producer.sender import Sender
from tidelog.producer.settings import ProducerSettings
from tidelog.worker_thread import WorkerThread

_logger = logging.getLogger("tidelog.producer")


class SendingThreads:
    """Sending threads of one producer, started on demand and ended by ``close``. Thread-safe."""

    def __init__(self, transport: Transport, buffer: SendBuffer, sender: Sender, settings: ProducerSettings) -> None:
        self._transport = transport
        self._buffer = buffer
        self._sender = sender
        self._settings = settings
        self._lock = threading.Lock()
        self._threads: list[WorkerThread] = []
        self._failed_count = 0
        self._first_error: TidelogError | None = None
        self._closed = False
        self._process_id = os.getpid()

    def ensure_started(self) -> None:
        """Start threads until there are enough for the batches in the buffer."""
        with self._lock:
            wanted = min(self._buffer.sendable_count, self._settings.max_in_flight)
            while len(self._threads) < wanted and not self._closed:
                name = f"tidelog-producer-{len(self._threads)}"
                thread = WorkerThread(self._run, name=name)
                # Start first: an interrupt between the two leaves one thread too many, but never counts one that does not run.
                thread.start()
                self._threads.append(thread)

    def flush(self, deadline: Deadline) -> None:
        """Wait for delivery, as ``Producer.flush``."""
        self.refuse_own_thread()
        if not self._buffer.flush(deadline):
            raise TimeoutError("the timeout passed before all records were acknowledged")
        self._raise_failures()

    def settle(self) -> DeliveryFailed | None:
        """Wait until nothing is in flight, and return and clear the failures since the last call; None if there are none."""
        self.refuse_own_thread()
        self._buffer.flush(Deadline(None))
        return self._failures()

    def close(self, deadline: Deadline) -> None:
        """Deliver buffered records until ``deadline``, give up the rest, and end the threads. A second call does nothing.

        Raises ``DeliveryFailed``.
        """
        if os.getpid() != self._process_id:
            return
        self.refuse_own_thread()
        self.ensure_started()  # an interrupt may have prevented an earlier ``ensure_started``
        with self._lock:
            first, self._closed = not self._closed, True
        if not first:
            return
        self._buffer.close()
        delivered = False
        try:
            delivered = self._buffer.flush(deadline)
        finally:
            # Abort requests in flight: their records fail, which finishes them, and the threads end.
            self._transport.close(abort=not delivered)
            for thread in self._threads:
                thread.ended()
        self._raise_failures()

    def close_abandoned(self) -> None:
        """Close a producer that the user left open. Failures are only logged, since there is no caller to raise them to."""
        if threading.current_thread() in self._threads:
            self._buffer.close()
            return
        with contextlib.suppress(DeliveryFailed):
            self.close(Deadline(self._settings.delivery_timeout_ms))

    def _run(self) -> None:
        while (batch := self._buffer.take()) is not None:
            try:
                self._deliver(batch)
            finally:
                self._sender.unregister(batch)
                self._buffer.finished(batch)

    def _deliver(self, batch: Sendable) -> None:
        try:
            if isinstance(batch, TableChunk):
                if not batch.delivery.failed:
                    self._sender.deliver_chunk(batch)
                return
            outcomes = self._sender.deliver(batch)
        except TidelogError as error:
            self._fail(batch, error)
        except BaseException as error:  # this thread's top level: otherwise these records would never be finished
            _logger.exception("internal error of the producer")
            defect = OutcomeUnknown(f"Internal error of the producer: {error!r}")
            defect.__cause__ = error
            self._fail(batch, defect)
        else:
            if outcomes is None:
                if self._settings.on_delivery is None:
                    batch.drop_records()
                return
            failed_count = batch.finish(outcomes, self._settings.on_delivery)
            if failed_count:
                first = next(outcome for outcome in outcomes if isinstance(outcome, TidelogError))
                self._note_failure(batch.topic, failed_count, first)

    def _fail(self, batch: Sendable, error: TidelogError) -> None:
        lost = (
            batch.delivery.fail(error)
            if isinstance(batch, TableChunk)
            else batch.fail(error, self._settings.on_delivery)
        )
        self._note_failure(batch.topic, lost, error)

    def _note_failure(self, topic: str, count: int, error: TidelogError) -> None:
        level = logging.DEBUG if isinstance(error, TransactionAborted) else logging.WARNING
        _logger.log(
            level, "%d records for topic %s were not acknowledged: %s: %s", count, topic, error.code, error.detail
        )
        self._sender.fail(error)
        with self._lock:
            self._failed_count += count
            self._first_error = self._first_error or error

    def _raise_failures(self) -> None:
        failures = self._failures()
        if failures is not None and self._settings.on_delivery is None:
            raise failures

    def _failures(self) -> DeliveryFailed | None:
        with self._lock:
            count, error = self._failed_count, self._first_error
            self._failed_count, self._first_error = 0, None
        return None if error is None else DeliveryFailed(count, error)

    def refuse_own_thread(self) -> None:
        """Raise ``RuntimeError`` in a sending thread, which would wait for itself."""
        if threading.current_thread() in self._threads:
            raise RuntimeError("a delivery callback can't wait for deliveries: it runs in the thread that delivers")
