"""One client's connection: reads frames, handles requests, writes answers in the order of requests.

1. Requests begin one after another, in the order of arrival; a handler that returns ``Later`` lets the next one begin.
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
    UNPROVED_FRAME_BYTES_MAX,
)
from gateway.kafka.brokers import Advertised
from gateway.kafka.call import (
    UNAUTHENTICATED_KEYS,
    Answer,
    Calls,
    Encoded,
    KafkaCall,
    Later,
    Refused,
    Remembered,
    Session,
)
from gateway.kafka.calls.versions import API_VERSIONS, versions_answer
from gateway.kafka.login import SASL_KEYS, holds
from gateway.kafka.metrics import KafkaMetrics, api_name
from gateway.kafka.wire.frames import STAGED_BYTES, Ended, Frames
from gateway.kafka.wire.messages import Head, LastHeader, encoded_body, framed, prepare, read_head, read_request
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
class _Pending:
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
        remembered: Remembered,
        calls: Calls,
        metrics: KafkaMetrics,
    ) -> None:
        self._number = next(_numbers)
        self._frames = frames
        self._gateway = gateway
        self._session = session
        self._advertised = advertised
        self._calls = calls
        self._large_frames = large_frames
        self._remembered = remembered
        self._metrics = metrics
        self._last_header = LastHeader()
        self._pending: deque[_Pending] = deque()
        self._has_news = asyncio.Event()
        """Set when a request was added, or no more will come."""
        self._takes_more = True
        self._room = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        self._room_to_produce = asyncio.Semaphore(PRODUCES_IN_FLIGHT_MAX)
        self._under_way: set[_Pending] = set()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        return not self._under_way

    def sweep(self, now_s: float) -> None:
        """Close the connection if its frame arrives too slowly. Called while memory for requests is short."""
        if self._frames.is_slower_than(FRAME_BYTES_PER_SECOND_MIN, FRAME_GRACE_MS / 1000, now_s):
            self._metrics.refused.labels("slow").inc()
            self._frames.transport.abort()

    async def run(self) -> None:
        """Serve the client. Raises nothing."""
        answering = asyncio.create_task(self._answer_all())
        try:
            await self._take_all()
            if self._frames.is_over:
                return  # as a broker does: submitted requests go on, their answers are not awaited
            self._takes_more = False
            self._has_news.set()
            await answering
        except (Ended, Refused, Malformed) as error:
            self._note_end(error)
        except Exception as error:  # noqa: BLE001 - top level of a connection
            _log.error("unforeseen error in a Kafka request", exc_info=error)
        finally:
            answering.cancel()
            self._frames.transport.close()
            for pending in list(self._under_way):
                pending.answer.cancel()
                self._settle(pending)
            self._remembered.shares.leave(self._session.shares)
            self._session.counted.end()

    def _note_end(self, error: Ended | Refused | Malformed) -> None:
        if not isinstance(error, Ended):
            self._metrics.refused.labels(type(error).__name__.lower()).inc()
            _log.info("a Kafka client's connection from %s is closed: %s", self._session.address, error)

    async def _take_all(self) -> None:
        """Begin requests until the client sends no more."""
        while True:
            try:
                await self._be_mute()
                size, key = await self._frames.head(self._idle_ms())
            except Ended:
                return
            await self._room_of(key).acquire()
            self._check_size(size, key)
            await self._frames.staged(size, self._gateway.settings.body_idle_ms)
            is_large = size > STAGED_BYTES
            gate = Reservation(self._large_frames, 0)
            if is_large:
                gate = await self._in_turn(self._of_principal(self._large_frames), size)
            reservation = await self._reserved(size, key, gate)
            try:
                # No local variable here keeps the frame alive while the next one is awaited.
                await self._begin(await self._received(size, gate), reservation)
            except BaseException:
                reservation.release()
                raise

    def _check_size(self, size: int, key: int) -> None:
        """Raise ``Refused`` for a frame whose size no request of its kind can have."""
        largest = self._gateway.settings.request_bytes_max + HEAD_BYTES if key == PRODUCE else SMALL_FRAME_BYTES_MAX
        if self._session.caller is None:
            largest = UNPROVED_FRAME_BYTES_MAX
        if not 8 <= size <= largest:
            raise Refused(f"a frame of {size} bytes of API key {key}")

    async def _reserved(self, size: int, key: int, gate: Reservation) -> Reservation:
        """Reserve memory for a frame. Raise ``Refused``, and then release ``gate``."""
        held = size * (PRODUCE_FRAME_COPIES if key == PRODUCE else SMALL_FRAME_COPIES)
        try:
            memory = self._gateway.request_memory
            return await self._in_turn(self._of_principal(memory) if key == PRODUCE else memory, held + HEAD_BYTES)
        except BaseException:
            gate.release()
            raise

    def _of_principal(self, memory: MemoryBudget) -> Memory:
        """Return the memory of the connection's principal; without authentication, and before it, the memory that all share."""
        caller = self._session.caller
        return memory if caller is None or not self._gateway.rights.enforced else memory.of(caller.principal)

    async def _in_turn(self, memory: Memory, size_bytes: int) -> Reservation:
        try:
            return await memory.reserve_in_turn(size_bytes, wait_ms=MEMORY_WAIT_MS_MAX, waiting_max=10_000)
        except BackOff as error:
            raise Refused("no memory for a frame") from error

    async def _received(self, size: int, gate: Reservation) -> memoryview:
        """Return the frame's bytes. Raise ``Ended``."""
        with gate:
            return await self._frames.body(size, self._gateway.settings.body_idle_ms)

    def _idle_ms(self) -> int:
        """Return how long the client may be silent. Before authentication that is as long as an HTTP request's head may take."""
        return IDLE_MS if self._session.caller is not None else self._gateway.settings.head_ms

    def _admit(self, key: int) -> None:
        """Count a request. Raise ``Refused`` if the client's credential is no longer valid."""
        caller = self._session.caller
        if caller is None or key in SASL_KEYS:
            return
        if not holds(caller, self._gateway.authentication):
            raise Refused("the client's credential has ended, and it did not prove itself again")
        if key not in ADMINISTERING_ACCESS:
            self._session.rates.spend(caller.principal, REQUESTS, 1)

    async def _be_mute(self) -> None:
        """Wait until the caller has no quota debt, at most ``PAUSE_MS_MAX``."""
        caller = self._session.caller
        pause_ms = 0 if caller is None else self._session.rates.pause_ms(caller.principal)
        if pause_ms:
            await asyncio.sleep(pause_ms / 1000)

    async def _begin(self, frame: memoryview, reservation: Reservation) -> None:
        """Parse and dispatch a request, and queue its answer. Raise ``Malformed``, ``Refused``, ``Ended``."""
        began_s = time.perf_counter()
        head = read_head(frame)
        served = self._calls.get(head.key)
        if served is None:
            raise Refused(f"API key {head.key} is not served")
        if self._session.caller is None and head.key not in UNAUTHENTICATED_KEYS:
            raise Refused("a request before authentication")
        if head.key in CHANGING_BY_NAME:
            await self._frames.go_on()
        await self._gateway.rights.renew()
        self._admit(head.key)
        if not served.least <= head.version <= served.most:
            if head.key != API_VERSIONS:
                raise Refused(f"version {head.version} of {api_name(head.key, served=True)} is not served")
            call = self._call(Head(head.key, 0, head.correlation_id), None, reservation)
            await self._pend(call, versions_answer(call, KafkaError.unsupported_version), len(frame), began_s)
            return
        if (head.key, head.version) not in self._remembered.prepared:
            await asyncio.to_thread(prepare, head.key, head.version)
            self._remembered.prepared.add((head.key, head.version))
        request = read_request(head, frame, self._last_header)
        call = self._call(head, request.client_id, reservation)
        begin_call(self._number)
        size, body = len(frame), request.body
        del frame, request  # lets a handler free the bytes as early as it can
        outcome = await served.handle(call, body)
        await self._pend(call, outcome, size, began_s)

    def _call(self, head: Head, client_id: str | None, reservation: Reservation) -> KafkaCall:
        return KafkaCall(
            head=head,
            client_id=client_id,
            gateway=self._gateway,
            advertised=self._advertised,
            session=self._session,
            calls=self._calls,
            remembered=self._remembered,
            arrived_at_ms=self._gateway.clock.now_ms(),
            revision=self._gateway.rights.revision,
            frame=reservation,
        )

    async def _pend(self, call: KafkaCall, outcome: Answer | Later, size_bytes: int, began_s: float) -> None:
        answer: asyncio.Future[Answer]
        if isinstance(outcome, Later):
            answer = asyncio.ensure_future(outcome.answer)
        else:
            answer = asyncio.get_running_loop().create_future()
            answer.set_result(outcome)
        pending = _Pending(call, answer, size_bytes, began_s)
        self._under_way.add(pending)
        self._pending.append(pending)
        self._has_news.set()

    async def _answer_all(self) -> None:
        """Send the answers, in the order of their requests."""
        while self._pending or self._takes_more:
            if not self._pending:
                self._has_news.clear()
                await self._has_news.wait()
                continue
            with contextlib.suppress(Exception):  # _send_ready raises it again
                await self._pending[0].answer
            answered: list[_Pending] = []
            try:
                await self._send_ready(answered)
            except Exception as error:  # noqa: BLE001 - top level of an answer
                if isinstance(error, Ended | Refused):
                    self._note_end(error)
                else:
                    _log.error("unforeseen error in a Kafka request", exc_info=error)
                self._frames.transport.close()
                return
            finally:
                for pending in answered:
                    self._settle(pending)

    async def _send_ready(self, answered: list[_Pending]) -> None:
        """Send the answers that are ready in one write, up to ``JOINED_BYTES``, because each write is a system call. Append
        their requests to ``answered``. Raise ``Ended``, and the exception of an answer once the answers before it are sent."""
        parts: list[bytes | memoryview] = []
        size = 0
        try:
            while size < JOINED_BYTES and self._pending and self._pending[0].answer.done():
                pending = self._pending.popleft()
                answered.append(pending)
                answer = pending.answer.result()
                if answer is not None:
                    frame = self._framed(pending, answer)
                    parts += frame
                    size += sum(map(len, frame))
        finally:
            if parts:
                await self._frames.write(parts, self._gateway.settings.write_stall_ms)
        for pending in answered:
            self._observe(pending)

    def _framed(self, pending: _Pending, answer: Answer) -> list[bytes | memoryview]:
        parts = answer.parts if isinstance(answer, Encoded) else (encoded_body(answer),)
        frame = framed(pending.call.head, *parts)
        self._metrics.of(pending.call.head.key).sent_bytes.inc(sum(map(len, frame)))
        return frame

    def _observe(self, pending: _Pending) -> None:
        metrics, seconds = self._metrics.of(pending.call.head.key), time.perf_counter() - pending.began_s
        metrics.requests.inc()
        metrics.received_bytes.inc(pending.size_bytes)
        metrics.seconds.observe(seconds)
        if _log.isEnabledFor(logging.DEBUG):
            name = api_name(pending.call.head.key, served=True)
            version, address = pending.call.version, self._session.address
            _log.debug("%s %d of %s (%s) in %.0f ms", name, version, address, pending.call.client_id, seconds * 1000)

    def _settle(self, pending: _Pending) -> None:
        """Release what the request holds. Idempotent."""
        if pending in self._under_way:
            self._under_way.discard(pending)
            pending.call.frame.release()
            for reservation in pending.call.held:
                reservation.release()
            self._room_of(pending.call.head.key).release()

    def _room_of(self, key: int) -> asyncio.Semaphore:
        return self._room_to_produce if key == PRODUCE else self._room
