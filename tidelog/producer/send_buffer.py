"""Buffer of records that wait to be sent, in order, with bounded memory.

1. Batches of one topic leave in the order in which they were filled, at most ``in_flight_per_topic`` unfinished at a time.
   Without sequence numbers that is one: two in flight could be committed in either order. Topics don't wait for each other.
2. Accepted and unfinished bytes are at most ``buffer_bytes``; a caller that would exceed it waits.
3. A batch is ready when it is full, has lingered, or a caller waits for a flush, for room or for ``close``. It is also ready
   when a caller waits for one of its records while nothing of its topic is in flight, unless several callers waited for the
   previous batch: then they share this one, too.
4. While a topic's batch is in flight the next one grows, up to ``REQUEST_TARGET_BYTES``: the slower the gateway, the fewer and
   larger the requests.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from tidelog import limits
from tidelog.bodies.record_columns import Delay
from tidelog.bodies.table_chunk import TableChunk
from tidelog.deadline import Deadline
from tidelog.errors import BufferFull
from tidelog.producer.delivery import RecordBatch, RecordFuture
from tidelog.producer.settings import ProducerSettings
from tidelog.types.record import Headers

Sendable = RecordBatch | TableChunk


class _Lane:
    """Queue of one topic's batches."""

    __slots__ = ("in_flight", "open", "sealed")

    def __init__(self) -> None:
        self.open: RecordBatch | None = None
        self.sealed: deque[Sendable] = deque()
        self.in_flight = 0

    def seal(self) -> None:
        if self.open is not None:
            self.sealed.append(self.open)
            self.open = None


class SendBuffer:
    """Buffer filled by any thread and emptied by the sending threads."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        in_flight_per_topic: int,
        on_taken: Callable[[Sendable], None],
    ) -> None:
        """Create an empty buffer.

        Args:
            on_taken: called with each batch that leaves, in order. It must not call the buffer.
        """
        self._in_flight_per_topic = in_flight_per_topic
        self._on_taken = on_taken
        self._linger_s = settings.linger_ms / 1000
        self._batch_bytes = settings.batch_bytes
        self._buffer_bytes = settings.buffer_bytes
        self._max_block_ms = settings.max_block_ms
        self._delivery_timeout_ms = settings.delivery_timeout_ms
        self._batch_bytes_max = max(settings.batch_bytes, min(limits.REQUEST_TARGET_BYTES, settings.buffer_bytes // 2))
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._unfinished: dict[int, Sendable] = {}
        self._next_number = 0
        self._size_bytes = 0
        self._flush_waiters = 0
        self._is_shared = False
        """Whether several callers waited for the batch that left last."""
        self._closing = False

    @property
    def size_bytes(self) -> int:
        """Number of accepted and unfinished bytes, with ``RECORD_OVERHEAD_BYTES`` for each record."""
        return self._size_bytes

    @property
    def batch_bytes_max(self) -> int:
        """Size up to which a batch may grow."""
        return self._batch_bytes_max

    @property
    def sendable_count(self) -> int:
        """Maximum number of batches that can be in flight now."""
        return min(len(self._lanes) * self._in_flight_per_topic, len(self._unfinished))

    def append(  # noqa: PLR0917 - names cost time, and this is done for each record
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        partition: int,
        timestamp_ms: int,
        size_bytes: int,
        delay: Delay | None = None,
    ) -> tuple[RecordFuture, bool]:
        """Accept one record, and return its future and whether it opened a batch.

        Raises ``BufferFull``, and ``RuntimeError`` after ``close``.
        """
        with self._lock:
            lane = self._lanes.get(topic)
            batch = lane.open if lane is not None else None
            if (
                batch is None
                or self._size_bytes + size_bytes > self._buffer_bytes
                or batch.size_bytes + size_bytes > self._batch_bytes_max
            ):
                batch = self._open(topic, size_bytes)
            self._size_bytes += size_bytes
            before = batch.size_bytes
            future = batch.add(key, value, headers, partition, timestamp_ms, size_bytes, delay)
            if before < self._batch_bytes <= batch.size_bytes:
                self._work.notify()
            return future, before == 0

    def put(self, chunk: TableChunk, max_block_ms: float | None = None) -> None:
        """Accept a part of a table. ``max_block_ms``: None for the buffer's. Raises as ``append``."""
        with self._lock:
            self._wait_for_room(chunk.size_bytes, max_block_ms)
            lane = self._lanes.setdefault(chunk.topic, _Lane())
            lane.seal()
            self._number(chunk)
            lane.sealed.append(chunk)
            self._size_bytes += chunk.size_bytes
            self._work.notify()

    def take(self) -> Sendable | None:
        """Wait for the next ready batch and return it; None when the buffer is closed and empty. Call ``finished`` afterwards."""
        with self._lock:
            while True:
                now = time.monotonic()
                wait_s: float | None = None
                for topic, lane in self._lanes.items():
                    if lane.in_flight >= self._in_flight_per_topic or (lane.open is None and not lane.sealed):
                        continue
                    ready_in_s = self._ready_in_s(lane, now)
                    if ready_in_s <= 0:
                        return self._take(topic, lane)
                    wait_s = ready_in_s if wait_s is None else min(wait_s, ready_in_s)
                if self._closing and not self._unfinished:
                    self._work.notify_all()
                    return None
                self._work.wait(wait_s)

    def wait_for_room(self, size_bytes: int, max_block_ms: float) -> None:
        """Wait until there is room for so many bytes. Raises as ``append``."""
        with self._lock:
            self._wait_for_room(size_bytes, max_block_ms)

    def finished(self, batch: Sendable) -> None:
        """Record that a batch from ``take`` has its outcome."""
        with self._lock:
            lane = self._lanes[batch.topic]
            lane.in_flight -= 1
            if not lane.in_flight and lane.open is None and not lane.sealed:
                del self._lanes[batch.topic]
            del self._unfinished[batch.number]
            self._size_bytes -= batch.size_bytes
            self._work.notify_all()
            self._room.notify_all()

    def flush(self, deadline: Deadline) -> bool:
        """Wait until everything accepted before this call is finished. Returns False if the deadline passed first."""
        with self._lock:
            end = self._next_number
            return self._flush_until(lambda: next(iter(self._unfinished), end) >= end, deadline)

    def wake(self) -> None:
        """Wake a sending thread because a caller waits for a record of an open batch."""
        with self._lock:
            self._work.notify()

    def close(self) -> None:
        """Accept no more records, and send the buffered ones without lingering."""
        with self._lock:
            self._closing = True
            self._work.notify_all()
            self._room.notify_all()

    def _open(self, topic: str, size_bytes: int) -> RecordBatch:
        self._wait_for_room(size_bytes)
        lane = self._lanes.setdefault(topic, _Lane())
        if lane.open is not None and lane.open.size_bytes + size_bytes > self._batch_bytes_max:
            lane.seal()
        if lane.open is None:
            deadline = Deadline(self._delivery_timeout_ms)
            batch = RecordBatch(topic, opened_at=time.monotonic(), deadline=deadline, on_waiter=self.wake)
            self._number(batch)
            lane.open = batch
            self._work.notify()
        return lane.open

    def _number(self, batch: Sendable) -> None:
        batch.number = self._next_number
        self._next_number += 1
        self._unfinished[batch.number] = batch

    def _wait_for_room(self, size_bytes: int, max_block_ms: float | None = None) -> None:
        if size_bytes > self._buffer_bytes:
            raise BufferFull(
                f"{size_bytes} bytes don't fit into a buffer of {self._buffer_bytes} bytes: raise buffer_bytes.",
                retryable=False,
                size_bytes=size_bytes,
            )

        def room() -> bool:
            return self._closing or self._size_bytes + size_bytes <= self._buffer_bytes

        block_ms = self._max_block_ms if max_block_ms is None else max_block_ms
        if not room() and not self._flush_until(room, Deadline(block_ms)):
            raise BufferFull(
                f"No room for {size_bytes} bytes within {block_ms:g} ms: the buffer's {self._buffer_bytes} bytes "
                "are full of records that no gateway has acknowledged yet.",
                size_bytes=size_bytes,
            )
        if self._closing:
            raise RuntimeError("the producer is closed")

    def _flush_until(self, over: Callable[[], bool], deadline: Deadline) -> bool:
        self._flush_waiters += 1
        self._work.notify_all()
        try:
            return self._room.wait_for(over, deadline.remaining_s())
        finally:
            self._flush_waiters -= 1

    def _ready_in_s(self, lane: _Lane, now: float) -> float:
        if lane.sealed or self._flush_waiters or self._closing:
            return 0.0
        assert lane.open is not None
        if lane.open.size_bytes >= self._batch_bytes or (
            lane.open.first_waiter is not None and not lane.in_flight and not self._is_shared
        ):
            return 0.0
        return lane.open.opened_at + self._linger_s - now

    def _take(self, topic: str, lane: _Lane) -> Sendable:
        if not lane.sealed:
            lane.seal()
        lane.in_flight += 1
        # Move the topic to the end, so that a busy one does not starve the others.
        self._lanes[topic] = self._lanes.pop(topic)
        batch = lane.sealed.popleft()
        self._is_shared = isinstance(batch, RecordBatch) and batch.is_shared
        self._on_taken(batch)
        return batch
