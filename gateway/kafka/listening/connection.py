"""One client's connection: reads frames, handles requests, writes answers in the order of requests.

1. Requests begin one after another, in the order of arrival; a handler that returns ``PendingAnswer`` lets the next one begin.
2. At most ``REQUESTS_IN_FLIGHT_MAX`` requests are in flight, and ``PRODUCES_IN_FLIGHT_MAX`` of Produce; a frame's memory is
   reserved before it is received.
3. A malformed or unserved request closes the connection, as a broker does; ApiVersions of an unknown version is answered.
4. An unexpected error closes the connection. It is logged; answers contain nothing but Kafka's error codes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from dataclasses import dataclass
from itertools import count
from typing import Final

from kio.schema.errors import ErrorCode as KafkaError

from gateway.call import begin_call
from gateway.gateway import Gateway
from gateway.kafka.bounds import (
    FRAME_BYTES_PER_SECOND_MIN,
    FRAME_GRACE_MS,
    HEAD_BYTES,
    IDLE_MS,
    JOINED_BYTES,
    MEMORY_WAIT_MS_MAX,
    PRODUCE_FRAME_COPIES,
    PRODUCES_IN_FLIGHT_MAX,
    REQUESTS_IN_FLIGHT_MAX,
    SMALL_FRAME_BYTES_MAX,
    SMALL_FRAME_COPIES,
    UNAUTHENTICATED_FRAME_BYTES_MAX,
)
from gateway.kafka.brokers import Advertised
from gateway.kafka.call import (
    UNAUTHENTICATED_KEYS,
    Answer,
    ApiHandlers,
    CloseConnection,
    Encoded,
    KafkaCall,
    ListenerCaches,
    PendingAnswer,
    Session,
)
from gateway.kafka.calls.versions import API_VERSIONS, versions_answer
from gateway.kafka.metrics import KafkaMetrics, api_name
from gateway.kafka.sasl import SASL_KEYS, has_valid_credential
from gateway.kafka.wire.frames import STAGED_BYTES, ConnectionEnded, Frames
from gateway.kafka.wire.messages import Head, LastHeader, encode_body, frame_answer, prepare, read_head, read_request
from gateway.kafka.wire.reading import Malformed
from gateway.memory_budget import Memory, MemoryBudget, Reservation
from gateway.quotas.limits import REQUESTS
from log_format.errors import BackOff

PRODUCE: Final = 0
ADMINISTERING_ACCESS: Final = frozenset({29, 30, 31, 48, 49})
"""API keys of ACLs and quotas: not counted, so that a quota that is too small can be corrected."""
CHANGING_BY_NAME: Final = frozenset({19, 20, 21, 33, 37, 42, 44, 47})
"""API keys of requests that create, change or delete topics and groups, or delete their records and offsets. They are not
begun for a client that has disconnected."""
_log = logging.getLogger("gateway.kafka")
_numbers: Final = count(1)
"""Numbers of connections."""


@dataclass(frozen=True, eq=False, slots=True)
class _QueuedAnswer:
    """A request in flight."""

    call: KafkaCall
    answer: asyncio.Future[Answer]
    size_bytes: int
    began_s: float


class KafkaConnection:
    """A client's connection; ``run`` serves it until the client disconnects. ``large_frames``: separate budget for large
    frames that are being received, so that small ones need not wait behind them. Used on the event loop only."""

    def __init__(
        self,
        frames: Frames,
        gateway: Gateway,
        session: Session,
        advertised: Advertised,
        *,
        large_frames: MemoryBudget,
        caches: ListenerCaches,
        calls: ApiHandlers,
        metrics: KafkaMetrics,
    ) -> None:
        self._number = next(_numbers)
        self._frames = frames
        self._gateway = gateway
        self._session = session
        self._advertised = advertised
        self._calls = calls
        self._large_frames = large_frames
        self._caches = caches
        self._metrics = metrics
        self._last_header = LastHeader()
        self._pending: deque[_QueuedAnswer] = deque()
        self._queue_changed = asyncio.Event()
        """Set when a request was added, or no more will come."""
        self._is_receiving = True
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        self._produce_slots = asyncio.Semaphore(PRODUCES_IN_FLIGHT_MAX)
        self._in_flight: set[_QueuedAnswer] = set()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._in_flight

    def sweep(self, now_s: float) -> None:
        """Close the connection if its frame arrives too slowly. Called while memory for requests is short."""
        if self._frames.is_slower_than(FRAME_BYTES_PER_SECOND_MIN, FRAME_GRACE_MS / 1000, now_s):
            self._metrics.refused.labels("slow").inc()
            self._frames.transport.abort()

    async def run(self) -> None:
        """Serve the client. Raises nothing."""
        answering = asyncio.create_task(self._answer_all())
        try:
            await self._receive_all()
            if self._frames.has_ended:
                return  # as a broker does: submitted requests go on, their answers are not awaited
            self._is_receiving = False
            self._queue_changed.set()
            await answering
        except (ConnectionEnded, CloseConnection, Malformed) as error:
            self._log_end(error)
        except Exception as error:  # noqa: BLE001 - top level of a connection
            _log.error("unforeseen error in a Kafka request", exc_info=error)
        finally:
            answering.cancel()
            self._frames.transport.close()
            for pending in list(self._in_flight):
                pending.answer.cancel()
                self._release(pending)
            self._caches.shares.leave(self._session.shares)
            self._session.quota_connection.end()

    def _log_end(self, error: ConnectionEnded | CloseConnection | Malformed) -> None:
        if not isinstance(error, ConnectionEnded):
            self._metrics.refused.labels("malformed" if isinstance(error, Malformed) else "refused").inc()
            _log.info("a Kafka client's connection from %s is closed: %s", self._session.address, error)

    async def _receive_all(self) -> None:
        """Begin requests until the client sends no more."""
        while True:
            try:
                await self._wait_for_quota()
                size, key = await self._frames.read_length(self._idle_ms())
            except ConnectionEnded:
                return
            await self._slots_of(key).acquire()
            self._check_size(size, key)
            await self._frames.wait_until_staged(size, self._gateway.settings.body_idle_ms)
            is_large = size > STAGED_BYTES
            gate = Reservation(self._large_frames, 0)
            if is_large:
                gate = await self._reserve(self._of_principal(self._large_frames), size)
            reservation = await self._reserve_frame(size, key, gate)
            try:
                # No local variable here keeps the frame alive while the next one is awaited.
                await self._begin(await self._receive(size, gate), reservation)
            except BaseException:
                reservation.release()
                raise

    def _check_size(self, size: int, key: int) -> None:
        """Raise ``CloseConnection`` for a frame whose size no request of its kind can have."""
        largest = self._gateway.settings.request_bytes_max + HEAD_BYTES if key == PRODUCE else SMALL_FRAME_BYTES_MAX
        if self._session.caller is None:
            largest = UNAUTHENTICATED_FRAME_BYTES_MAX
        if not 8 <= size <= largest:
            raise CloseConnection(f"a frame of {size} bytes of API key {key}")

    async def _reserve_frame(self, size: int, key: int, gate: Reservation) -> Reservation:
        """Reserve memory for a frame. Raise ``CloseConnection``, and then release ``gate``."""
        held = size * (PRODUCE_FRAME_COPIES if key == PRODUCE else SMALL_FRAME_COPIES)
        try:
            memory = self._gateway.request_memory
            return await self._reserve(self._of_principal(memory) if key == PRODUCE else memory, held + HEAD_BYTES)
        except BaseException:
            gate.release()
            raise

    def _of_principal(self, memory: MemoryBudget) -> Memory:
        """Return the memory of the connection's principal; without authentication, and before it, the memory that all share."""
        caller = self._session.caller
        return memory if caller is None or not self._gateway.rights.enforced else memory.of(caller.principal)

    async def _reserve(self, memory: Memory, size_bytes: int) -> Reservation:
        try:
            return await memory.reserve_in_turn(size_bytes, wait_ms=MEMORY_WAIT_MS_MAX, waiting_max=10_000)
        except BackOff as error:
            raise CloseConnection("no memory for a frame") from error

    async def _receive(self, size: int, gate: Reservation) -> memoryview:
        """Return the frame's bytes. Raise ``ConnectionEnded``."""
        with gate:
            return await self._frames.read_body(size, self._gateway.settings.body_idle_ms)

    def _idle_ms(self) -> int:
        """Return how long the client may be silent. Before authentication that is as long as an HTTP request's head may take."""
        return IDLE_MS if self._session.caller is not None else self._gateway.settings.head_ms

    def _admit(self, key: int) -> None:
        """Count a request. Raise ``CloseConnection`` if the client's credential is no longer valid."""
        caller = self._session.caller
        if caller is None or key in SASL_KEYS:
            return
        if not has_valid_credential(caller, self._gateway.authentication):
            raise CloseConnection("the client's credential has ended, and it did not prove itself again")
        if key not in ADMINISTERING_ACCESS:
            self._session.rates.spend(caller.principal, REQUESTS, 1)

    async def _wait_for_quota(self) -> None:
        """Wait until the caller has no quota debt, at most ``PAUSE_MS_MAX``."""
        caller = self._session.caller
        pause_ms = 0 if caller is None else self._session.rates.pause_ms(caller.principal)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)

    async def _begin(self, frame: memoryview, reservation: Reservation) -> None:
        """Parse and dispatch a request, and queue its answer. Raise ``Malformed``, ``CloseConnection``, ``ConnectionEnded``."""
        began_s = time.perf_counter()
        head = read_head(frame)
        served = self._calls.get(head.key)
        if served is None:
            raise CloseConnection(f"API key {head.key} is not served")
        if self._session.caller is None and head.key not in UNAUTHENTICATED_KEYS:
            raise CloseConnection("a request before authentication")
        if head.key in CHANGING_BY_NAME:
            await self._frames.check_connected()
        await self._gateway.rights.refresh_if_old()
        self._admit(head.key)
        if not served.version_min <= head.version <= served.version_max:
            if head.key != API_VERSIONS:
                raise CloseConnection(f"version {head.version} of {api_name(head.key, served=True)} is not served")
            call = self._make_call(Head(head.key, 0, head.correlation_id), None, reservation)
            await self._queue_answer(call, versions_answer(call, KafkaError.unsupported_version), len(frame), began_s)
            return
        if (head.key, head.version) not in self._caches.prepared:
            await asyncio.to_thread(prepare, head.key, head.version)
            self._caches.prepared.add((head.key, head.version))
        request = read_request(head, frame, self._last_header)
        call = self._make_call(head, request.client_id, reservation)
        begin_call(self._number)
        size, body = len(frame), request.body
        del frame, request  # lets a handler free the bytes as early as it can
        outcome = await served.handle(call, body)
        await self._queue_answer(call, outcome, size, began_s)

    def _make_call(self, head: Head, client_id: str | None, reservation: Reservation) -> KafkaCall:
        return KafkaCall(
            head=head,
            client_id=client_id,
            gateway=self._gateway,
            advertised=self._advertised,
            session=self._session,
            calls=self._calls,
            caches=self._caches,
            arrived_at_ms=self._gateway.clock.now_ms(),
            revision=self._gateway.rights.revision,
            frame=reservation,
        )

    async def _queue_answer(
        self, call: KafkaCall, outcome: Answer | PendingAnswer, size_bytes: int, began_s: float
    ) -> None:
        answer: asyncio.Future[Answer]
        if isinstance(outcome, PendingAnswer):
            answer = asyncio.ensure_future(outcome.answer)
        else:
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(outcome)
        pending = _QueuedAnswer(call, answer, size_bytes, began_s)
        self._in_flight.add(pending)
        self._pending.append(pending)
        self._queue_changed.set()

    async def _answer_all(self) -> None:
        """Send the answers, in the order of their requests."""
        while self._pending or self._is_receiving:
            if not self._pending:
                self._queue_changed.clear()
                await self._queue_changed.wait()
                continue
            with contextlib.suppress(Exception):  # _send_ready raises it again
                await self._pending[0].answer
            answered: list[_QueuedAnswer] = []
            try:
                await self._send_ready(answered)
            except Exception as error:  # noqa: BLE001 - top level of an answer
                if isinstance(error, ConnectionEnded | CloseConnection):
                    self._log_end(error)
                else:
                    _log.error("unforeseen error in a Kafka request", exc_info=error)
                self._frames.transport.close()
                return
            finally:
                for pending in answered:
                    self._release(pending)

    async def _send_ready(self, answered: list[_QueuedAnswer]) -> None:
        """Send the answers that are ready in one write, up to ``JOINED_BYTES``, because each write is a system call. Append
        their requests to ``answered``. Raise ``ConnectionEnded``, and an answer's exception once those before it are sent."""
        parts: list[bytes | memoryview] = []
        size = 0
        try:
            while size < JOINED_BYTES and self._pending and self._pending[0].answer.done():
                pending = self._pending.popleft()
                answered.append(pending)
                answer = pending.answer.result()
                if answer is not None:
                    frame = self._encode_frame(pending, answer)
                    parts += frame
                    size += sum(map(len, frame))
        finally:
            if parts:
                await self._frames.write(parts, self._gateway.settings.write_stall_ms)
        for pending in answered:
            self._observe(pending)

    def _encode_frame(self, pending: _QueuedAnswer, answer: Answer) -> list[bytes | memoryview]:
        parts = answer.parts if isinstance(answer, Encoded) else (encode_body(answer),)
        frame = frame_answer(pending.call.head, *parts)
        self._metrics.of(pending.call.head.key).sent_bytes += sum(map(len, frame))
        return frame

    def _observe(self, pending: _QueuedAnswer) -> None:
        metrics, seconds = self._metrics.of(pending.call.head.key), time.perf_counter() - pending.began_s
        metrics.requests += 1
        metrics.received_bytes += pending.size_bytes
        metrics.seconds.observe(seconds)
        if _log.isEnabledFor(logging.DEBUG):
            name = api_name(pending.call.head.key, served=True)
            version, address = pending.call.version, self._session.address
            _log.debug("%s %d of %s (%s) in %.0f ms", name, version, address, pending.call.client_id, seconds * 1000)

    def _release(self, pending: _QueuedAnswer) -> None:
        """Release what the request holds. Idempotent."""
        if pending in self._in_flight:
            self._in_flight.discard(pending)
            pending.call.frame.release()
            for reservation in pending.call.reservations:
                reservation.release()
            self._slots_of(pending.call.head.key).release()

    def _slots_of(self, key: int) -> asyncio.Semaphore:
        return self._produce_slots if key == PRODUCE else self._slots
