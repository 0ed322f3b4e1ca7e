"""Batches of records in flight, and the futures of their outcomes.

A ``concurrent.futures.Future`` per record is expensive: it has a lock, a queue and two lists of its own, a kilobyte and more.
So the futures of a batch share the batch's state and hold only their index. They still are ``concurrent.futures.Future``:
``concurrent.futures.wait``, ``as_completed`` and ``asyncio.wrap_future`` accept them.

All futures share one condition, held only to set or read a batch's outcome. With several conditions two callers could deadlock:
``concurrent.futures.wait`` acquires those of all its futures at once, in no fixed order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from log_format.errors import TidelogError
from tidelog.bodies.record_columns import ANY_PARTITION, Delay, RecordColumns
from tidelog.deadline import Deadline
from tidelog.types.record import DeadLetter, Headers, RecordMetadata, ScheduledPlace, SentRecord

Outcome = int | ScheduledPlace | DeadLetter | TidelogError
"""A record's offset (-1: not known yet), its place while it is delayed, or the reason why it is not stored."""

OnDelivery = Callable[[TidelogError | None, SentRecord], None]

_logger = logging.getLogger("tidelog.producer")
_finished = threading.Condition(threading.RLock())


class RecordFuture(Future[RecordMetadata]):
    """Future of one record's place. It can't be cancelled, since its batch is sent as a whole."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: RecordBatch, index: int) -> None:  # skips ``Future.__init__``
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        """Show whether the record is finished."""
        return f"<RecordFuture {self._batch.topic}: {'finished' if self.done() else 'pending'}>"

    def cancel(self) -> bool:
        """Return False: the record can't be cancelled."""
        return False

    def cancelled(self) -> bool:
        """Return False."""
        return False

    def running(self) -> bool:
        """Return whether the record has no outcome yet."""
        return not self.done()

    def done(self) -> bool:
        """Return whether the record is acknowledged or given up."""
        return self._batch.outcomes is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's place; raise its ``TidelogError``, or ``TimeoutError`` after ``timeout`` seconds."""
        outcome = self._batch.wait(timeout)[self._index]
        if isinstance(outcome, TidelogError):
            raise outcome.with_traceback(None)
        return self._batch.metadata(self._index, outcome)

    def exception(self, timeout: float | None = None) -> TidelogError | None:
        """Return why the record is not acknowledged, or None. Raises ``TimeoutError`` after ``timeout`` seconds."""
        outcome = self._batch.wait(timeout)[self._index]
        return outcome if isinstance(outcome, TidelogError) else None

    def note_waiter(self, caller: object) -> None:
        """Record that a task waits for the outcome; ``result`` does the same for its thread."""
        self._batch.note_waiter(caller)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Return ``result``, by kafka-python's name."""
        return self.result(timeout)

    def add_callback(self, fn: Callable[..., object], *arguments: Any, **named: Any) -> RecordFuture:
        """Call ``fn`` with ``arguments`` and the metadata when the record is stored, as kafka-python does; return this future."""

        def call(future: Future[RecordMetadata]) -> None:
            if not future.cancelled() and future.exception() is None:
                fn(*arguments, future.result(), **named)

        self.add_done_callback(call)
        return self

    def add_errback(self, fn: Callable[..., object], *arguments: Any, **named: Any) -> RecordFuture:
        """Call ``fn`` with ``arguments`` and the error when the record failed, as kafka-python does; return this future."""

        def call(future: Future[RecordMetadata]) -> None:
            error = future.exception() if not future.cancelled() else None
            if error is not None:
                fn(*arguments, error, **named)

        self.add_done_callback(call)
        return self

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn`` with this future: from the sending thread when it is done, or immediately if it already is."""
        with _finished:
            if self._batch.outcomes is None:
                self._batch.callbacks.append((self, fn))
                return
        _call(fn, self)

    # Attributes that concurrent.futures.wait and as_completed read.

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return _finished

    @property
    def _state(self) -> str:  # type: ignore[override]
        return "PENDING" if self._batch.outcomes is None else "FINISHED"

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        return self._batch.waiters.setdefault(self, [])


class RecordBatch:
    """Records of one topic sent as one request, and their outcomes. Filled under the send buffer's lock."""

    __slots__ = (
        "callbacks", "columns", "deadline", "first_waiter", "gateway_stamps", "is_shared", "largest_bytes", "number",
        "on_waiter", "opened_at", "outcomes", "size_bytes", "topic", "waiters",
    )  # fmt: skip

    def __init__(
        self, topic: str, *, opened_at: float, deadline: Deadline, on_waiter: Callable[[], None] = lambda: None
    ) -> None:
        """Create an empty batch. ``on_waiter`` is called when a caller begins to wait for its outcome."""
        self.first_waiter: object = None
        self.is_shared = False
        """Whether several callers wait for the outcome."""
        self.on_waiter = on_waiter
        self.topic = topic
        self.number = 0
        self.opened_at = opened_at
        self.deadline = deadline
        self.columns = RecordColumns()
        self.size_bytes = 0
        self.largest_bytes = 0
        self.gateway_stamps = False
        self.outcomes: list[Outcome] | None = None
        self.callbacks: list[tuple[RecordFuture, Callable[[Future[RecordMetadata]], object]]] = []
        self.waiters: dict[RecordFuture, list[Any]] = {}

    def add(  # noqa: PLR0917 - names cost time, and this is done for each record
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        partition: int,
        timestamp_ms: int,
        size_bytes: int,
        delay: Delay | None = None,
    ) -> RecordFuture:
        """Append one record. ``size_bytes`` includes ``RECORD_OVERHEAD_BYTES``."""
        columns = self.columns
        index = len(columns.values)
        columns.keys.append(key)
        columns.values.append(value)
        columns.named.append(partition)
        columns.timestamps_ms.append(timestamp_ms)
        if headers:
            columns.headers[index] = headers
        if delay is not None:
            columns.delays[index] = delay
        self.size_bytes += size_bytes
        if size_bytes > self.largest_bytes:  # noqa: PLR1730 - max() is dearer, and this is done for each record
            self.largest_bytes = size_bytes
        return RecordFuture(self, index)

    @property
    def record_count(self) -> int:
        """Number of records, also after ``drop_records``."""
        return len(self.columns.timestamps_ms)

    def drop_records(self) -> None:
        """Drop the sent records, and keep what their outcomes are made from."""
        self.columns.keys, self.columns.values, self.columns.headers = [], [], {}

    def note_waiter(self, caller: object) -> None:
        """Record that this thread or task waits for the outcome."""
        if self.first_waiter is None:
            self.first_waiter = caller
            self.on_waiter()
        elif self.first_waiter != caller:
            self.is_shared = True

    def wait(self, timeout_s: float | None) -> list[Outcome]:
        """Wait for the outcomes, and return them, one per record. Raises ``TimeoutError``."""
        if self.outcomes is None:
            self.note_waiter(threading.get_ident())
            with _finished:
                if not _finished.wait_for(lambda: self.outcomes is not None, timeout_s):
                    raise TimeoutError
        assert self.outcomes is not None
        return self.outcomes

    def metadata(self, index: int, outcome: int | ScheduledPlace | DeadLetter) -> RecordMetadata:
        """Return an acknowledged record's place."""
        timestamp_ms = None if self.gateway_stamps else self.columns.timestamps_ms[index]
        partition = self.columns.assigned[index]
        if isinstance(outcome, ScheduledPlace):
            return RecordMetadata(self.topic, partition, -1, timestamp_ms, outcome.id, outcome.deliver_at)
        if isinstance(outcome, DeadLetter):
            place = outcome.partition, outcome.offset
            return RecordMetadata(outcome.topic, *place, timestamp_ms, dead_letter_reason=outcome.reason)
        return RecordMetadata(self.topic, partition, outcome, timestamp_ms)

    def fail(self, error: TidelogError, on_delivery: OnDelivery | None) -> int:
        """Finish with ``error`` for every record, and return the number of failed records."""
        return self.finish([error] * self.record_count, on_delivery)

    def finish(self, outcomes: list[Outcome], on_delivery: OnDelivery | None) -> int:
        """Report the outcomes, once: futures first, then ``on_delivery``. Returns the number of failed records."""
        assert len(outcomes) == self.record_count
        assert self.outcomes is None
        with _finished:
            self.outcomes = outcomes
            callbacks, self.callbacks = self.callbacks, []
            for future, waiters in self.waiters.items():
                for waiter in waiters:
                    add = (
                        waiter.add_exception if isinstance(outcomes[future._index], TidelogError) else waiter.add_result
                    )
                    add(future)
            _finished.notify_all()
        for future, fn in callbacks:
            _call(fn, future)
        if on_delivery is not None:
            self._report(outcomes, on_delivery)
        self.drop_records()
        return sum(1 for outcome in outcomes if isinstance(outcome, TidelogError))

    def _report(self, outcomes: list[Outcome], on_delivery: OnDelivery) -> None:
        columns = self.columns
        for index, outcome in enumerate(outcomes):
            error = outcome if isinstance(outcome, TidelogError) else None
            partition = columns.assigned[index] if columns.assigned else columns.named[index]
            record = SentRecord(
                self.topic,
                None if partition == ANY_PARTITION else partition,
                outcome if isinstance(outcome, int) else None,
                None if self.gateway_stamps else columns.timestamps_ms[index],
                columns.keys[index],
                columns.values[index],
                columns.headers.get(index, ()),
            )
            _call(on_delivery, error, record)


def _call(fn: Callable[..., object], *arguments: object) -> None:
    try:
        fn(*arguments)
    except BaseException as error:  # the user's code must not end this thread
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise  # Ctrl-C, or sys.exit() in a callback of an already finished record
        _logger.exception("a delivery callback raised an exception")
