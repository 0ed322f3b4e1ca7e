"""The lane of old records: fetches of history, answered by reader processes. The tail and producers never wait for the lane.

1. A task holds a share of the readers' memory until its answer is sent. Shares are given in order of arrival, and one for each
   reader is reserved for clients that hold none (``MemoryBudget``).
2. The reader writes the body to the client's own socket (``client_socket``). With TLS this process passes the body on, and holds
   one piece at a time. While a client does not read, the reader waits.
3. When a reader ends, its tasks are refused (503, nothing happened) or, if the client already has a part, cut short. The gateway
   does not itself read what a reader may have died of. While there is no reader, it reads as if there were no lane.
4. A task without a head within ``HEAD_MS_MAX`` is refused likewise. A reader that gave no task a head for long is killed.
5. Readers run while there are such fetches. The gateway reads for the first ones itself: it waits for no process to start.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.catch_up_reads.client_socket import DIRECT, GONE, PASSED_ON, WAITS, ClientSocket
from gateway.catch_up_reads.readers import Reader, Readers, ReaderUnavailable
from gateway.catch_up_reads.service import PARALLEL_TASKS_MAX
from gateway.catch_up_reads.task import FRAME_BYTES_MAX, HEADS, LENGTH, Head, Task, frame
from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.memory_budget import MemoryBudget, Reservation
from gateway.stores.counted import StoreRequests
from log_format.errors import BackOff

TASK_BYTES: Final = 12 * 1024 * 1024
"""Memory of a task: its records, the row groups around them, their stored bytes, a piece of the answer."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of records in one answer; a larger fetch gets this many."""
PIECE_BYTES: Final = 256 * 1024
HEAD_MS_MAX: Final = 10_000
PIECE_MS_MAX: Final = 30_000
"""Longest silence of the reader, not counting waits for the client, before an answer is cut short: the reader may be frozen."""
WAITING_MAX: Final = 20_000
"""Most tasks that wait for memory; the number of connections is the smaller bound."""


class HistoryLane:
    """The lane. Used on the event loop only. ``has_principals``: whether clients are authenticated; one may then hold half of
    the memory."""

    def __init__(
        self,
        readers: Readers,
        count: int,
        *,
        requests: StoreRequests,
        registry: CollectorRegistry,
        has_principals: bool,
        piece_ms_max: int = PIECE_MS_MAX,
    ) -> None:
        self._piece_ms_max = piece_ms_max
        share = count * TASK_BYTES
        size = share * PARALLEL_TASKS_MAX
        of_client_max = size // 2 if has_principals else None
        self.memory = MemoryBudget(size, "reads of history", kept_bytes=share, of_client_max=of_client_max)
        self._readers = readers
        self._requests = requests
        requests_given = Counter(
            "tidelog_history_requests",
            "Fetches of old records passed to reader processes, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self._answered, self._failed = requests_given.labels("answered"), requests_given.labels("failed")
        self._bytes = Counter(
            "tidelog_history_bytes", "Bytes of answers that reader processes sent.", registry=registry
        )
        waiting = Gauge("tidelog_history_waiting", "Fetches that wait for a free reader process.", registry=registry)
        waiting.set_function(lambda: self.memory.waiting_count)
        live = Gauge("tidelog_history_readers", "Reader processes that accept fetches.", registry=registry)
        live.set_function(lambda: readers.live_count)

    def wake(self) -> None:
        """Have the readers run. Return immediately."""
        self._readers.wake()

    async def stop(self) -> None:
        """Stop the readers."""
        await self._readers.stop()

    @property
    def is_open(self) -> bool:
        """Whether there is a reader."""
        return self._readers.live_count > 0

    async def read(self, task: Task, client: str | None) -> Answer | None:
        """Return the answer, which the caller closes; None if the gateway has to read itself. Raise ``BackOff``."""
        reservation = await self.memory.reserve_in_turn(
            TASK_BYTES, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=WAITING_MAX, client=client
        )
        reader = self._readers.choose(f"{task.topic_id}/{task.partition}")
        if reader is None:
            reservation.release()
            return None
        try:
            answer = Answer(reader, reader.hand_over(), reservation, self._bytes, self._piece_ms_max)
        except ReaderUnavailable:
            reservation.release()
            return None
        is_whole = False
        try:
            answer.head = await answer.begin(task)
            is_whole = True
        finally:
            (self._answered if is_whole else self._failed).inc()
            if not is_whole:
                answer.close()
        self._requests.add(answer.head.asked)
        return answer


class Answer:
    """One task's answer."""

    def __init__(
        self, reader: Reader, source: socket.socket, reservation: Reservation, sent: Counter, piece_ms_max: int
    ) -> None:
        self.head = Head(0)
        self._piece_s_max = piece_ms_max / 1000
        self._reader: Reader | None = reader
        self._source = source
        self._reservation = reservation
        self._sent = sent
        reader.task_count += 1

    async def begin(self, task: Task) -> Head:
        """Send the task, and wait for its head. Raise ``BackOff``."""
        reader = self._reader
        assert reader is not None
        try:
            async with asyncio.timeout(HEAD_MS_MAX / 1000):
                await asyncio.get_running_loop().sock_sendall(self._source, frame(task))
                data = await self._frame()
        except TimeoutError:
            reader.note_missed_head()
            raise BackOff("The store did not return a segment in time.") from None
        except OSError:
            raise BackOff("The process that reads old records ended, and is restarted.") from None
        reader.note_answer()
        return HEADS.decode(data)

    async def send_directly(self, client: ClientSocket, descriptor: int) -> int:
        """Have the reader write the body to the client's lent socket; return the number of bytes.

        Raises ``OSError`` if the body is cut short.
        """
        socket.send_fds(self._source, [DIRECT], [descriptor])
        total_bytes, waits = 0, False
        while True:
            # No timeout for the client: a connection that takes too long is aborted elsewhere.
            async with asyncio.timeout(None if waits else self._piece_s_max):
                report = await self._number()
            if report == GONE:
                await client.drop()
                raise ConnectionResetError("the client is gone")
            if report == 0:
                break
            count, waits = report & ~WAITS, bool(report & WAITS)
            total_bytes += count
            self._sent.inc(count)
            client.count_written(count, waits=waits)
        return total_bytes

    def give_up(self) -> None:
        """Close the task's socket: a request that waits for the reader fails, and the reader ends the task. Idempotent."""
        with suppress(OSError):
            self._source.shutdown(socket.SHUT_RDWR)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body. Raise ``OSError`` if it is cut short."""
        await asyncio.get_running_loop().sock_sendall(self._source, PASSED_ON)
        while left := await self._length():
            while left:
                piece = await self._some(min(left, PIECE_BYTES))
                left -= len(piece)
                self._sent.inc(len(piece))
                yield piece

    def close(self) -> None:
        """Release what the answer holds; the reader ends the task. Idempotent."""
        if self._reader is not None:
            self._reader.task_count -= 1
            self._reader = None
            self._source.close()
            self._reservation.release()

    async def _frame(self) -> bytes:
        left = await self._length()
        if left > FRAME_BYTES_MAX:
            raise OSError("no head of a reader")
        data = b""
        while len(data) < left:
            data += await self._some(left - len(data))
        return data

    async def _length(self) -> int:
        async with asyncio.timeout(self._piece_s_max):
            return await self._number()

    async def _number(self) -> int:
        data = b""
        while len(data) < LENGTH.size:
            data += await self._received(LENGTH.size - len(data))
        (number,) = LENGTH.unpack(data)
        return int(number)

    async def _some(self, size: int) -> bytes:
        async with asyncio.timeout(self._piece_s_max):
            return await self._received(size)

    async def _received(self, size: int) -> bytes:
        piece = await asyncio.get_running_loop().sock_recv(self._source, size)
        if not piece:
            raise ConnectionResetError("the reader ended")
        return piece
