"""Records on their way, and the futures of their outcomes.

A future per record is dear: a ``concurrent.futures.Future`` has a lock, a queue and two lists of its own, a kilobyte and more.
So the futures of a batch share the batch's state and hold only their index. They still are ``concurrent.futures.Future``:
``concurrent.futures.wait``, ``as_completed`` and ``asyncio.wrap_future`` take them.

All futures share one condition, which is held only to set or to read a batch's outcome. With several conditions two callers
could deadlock: ``concurrent.futures.wait`` takes those of all its futures at once, in no fixed order.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from log_format.errors import TidelogError
from tidelog.bodies.record_columns import CHOOSE, Delay, RecordColumns
from tidelog.deadline import Deadline
from tidelog.types.record import Headers, RecordMetadata, ScheduledPlace, SentRecord

Outcome = int | ScheduledPlace | TidelogError
"""A record's offset (-1: not known yet), what names it until it is delivered, or why it is not stored."""

OnDelivery = Callable[[TidelogError | None, SentRecord], None]

_logger = logging.getLogger("tidelog.producer")
_finished = threading.Condition(threading.RLock())


class RecordFuture(Future[RecordMetadata]):
    """Where one record went. It can't be cancelled: its batch goes as a whole."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: RecordBatch, index: int) -> None:  # deliberately without Future's own state
        self._batch = batch
        self._index = index

    def __repr__(self) -> str:
        """Its state, or its outcome."""
        return f"<RecordFuture {self._batch.topic}: {'finished' if self.done() else 'pending'}>"

    def cancel(self) -> bool:
        """False: it can't be."""
        return False

    def cancelled(self) -> bool:
        """False, always."""
        return False

    def running(self) -> bool:
        """Whether it is not done."""
        return not self.done()

    def done(self) -> bool:
        """Whether the record is acknowledged or given up."""
        return self._batch.outcomes is not None

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; raises its ``TidelogError``, or ``TimeoutError`` after ``timeout`` seconds."""
        outcome = self._batch.wait(timeout)[self._index]
        if isinstance(outcome, TidelogError):
            raise outcome.with_traceback(None)
        return self._batch.metadata(self._index, outcome)

    def exception(self, timeout: float | None = None) -> TidelogError | None:
        """Why the record is not acknowledged, or None. Raises ``TimeoutError`` after ``timeout`` seconds."""
        outcome = self._batch.wait(timeout)[self._index]
        return outcome if isinstance(outcome, TidelogError) else None

    def want(self, caller: object) -> None:
        """Say that a task waits for it, as ``result`` says of its thread."""
        self._batch.want(caller)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """As ``result``, by kafka-python's name."""
        return self.result(timeout)

    def add_callback(self, fn: Callable[..., object], *arguments: Any, **named: Any) -> RecordFuture:
        """As kafka-python: call ``fn`` with the record's metadata behind ``arguments``, when it is stored; returns itself."""

        def call(future: Future[RecordMetadata]) -> None:
            if not future.cancelled() and future.exception() is None:
                fn(*arguments, future.result(), **named)

        self.add_done_callback(call)
        return self

    def add_errback(self, fn: Callable[..., object], *arguments: Any, **named: Any) -> RecordFuture:
        """As kafka-python: call ``fn`` with the error behind ``arguments``, when the record failed; returns itself."""

        def call(future: Future[RecordMetadata]) -> None:
            error = future.exception() if not future.cancelled() else None
            if error is not None:
                fn(*arguments, error, **named)

        self.add_done_callback(call)
        return self

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn`` with this future when it is done, from the sending thread, or at once when it is."""
        with _finished:
            if self._batch.outcomes is None:
                self._batch.callbacks.append((self, fn))
                return
        _call(fn, self)

    # What concurrent.futures.wait and as_completed look at.

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
    """Records of one topic that go as one request, and their outcome. Filled under the send buffer's lock."""

    __slots__ = (
        "callbacks", "columns", "deadline", "gateway_stamps", "is_shared", "largest_bytes", "number",
        "on_wanted", "opened_at", "outcomes", "size_bytes", "topic", "waiters", "wanted_by",
    )  # fmt: skip

    def __init__(
        self, topic: str, *, opened_at: float, deadline: Deadline, on_wanted: Callable[[], None] = lambda: None
    ) -> None:
        """``on_wanted`` is called when a caller begins to wait for its outcome."""
        self.wanted_by: object = None
        self.is_shared = False
        """Whether several wait for it."""
        self.on_wanted = on_wanted
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
        """Append one record. ``size_bytes`` counts ``RECORD_OVERHEAD_BYTES``."""
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
        """How many records it has, also after it dropped them."""
        return len(self.columns.timestamps_ms)

    def drop_records(self) -> None:
        """The records are sent: keep what their outcome is made of, and drop the rest."""
        self.columns.keys, self.columns.values, self.columns.headers = [], [], {}

    def want(self, caller: object) -> None:
        """This thread or task waits for the outcome."""
        if self.wanted_by is None:
            self.wanted_by = caller
            self.on_wanted()
        elif self.wanted_by != caller:
            self.is_shared = True

    def wait(self, timeout_s: float | None) -> list[Outcome]:
        """The outcomes, one per record. Raises ``TimeoutError``."""
        if self.outcomes is None:
            self.want(threading.get_ident())
            with _finished:
                if not _finished.wait_for(lambda: self.outcomes is not None, timeout_s):
                    raise TimeoutError
        assert self.outcomes is not None
        return self.outcomes

    def metadata(self, index: int, outcome: int | ScheduledPlace) -> RecordMetadata:
        """Where an acknowledged record is."""
        timestamp_ms = None if self.gateway_stamps else self.columns.timestamps_ms[index]
        partition = self.columns.assigned[index]
        if isinstance(outcome, ScheduledPlace):
            return RecordMetadata(self.topic, partition, -1, timestamp_ms, outcome.id, outcome.deliver_at)
        return RecordMetadata(self.topic, partition, outcome, timestamp_ms)

    def fail(self, error: TidelogError, on_delivery: OnDelivery | None) -> int:
        """Finish with ``error`` for every record. Returns how many failed."""
        return self.finish([error] * self.record_count, on_delivery)

    def finish(self, outcomes: list[Outcome], on_delivery: OnDelivery | None) -> int:
        """Report the outcomes, once: futures first, then ``on_delivery``. Returns how many records failed."""
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
                None if partition == CHOOSE else partition,
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
    except BaseException as error:  # the user's code, in our thread, which has more to deliver, whatever ends it
        if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
            raise  # Ctrl-C, or sys.exit() in a callback of a record that was finished already
        _logger.exception("a delivery callback raised an exception")
