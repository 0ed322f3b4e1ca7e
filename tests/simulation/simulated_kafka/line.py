"""A client's connection to a gateway's Kafka listener: bytes in order both ways, until it breaks or an end hangs up.

The gateway's end stands in for asyncio's transport; what it is given runs the listener as it is. A line that broke
tells neither end: the client finds out by its patience, the gateway once the client hangs up. What has not arrived by
then arrives together with that, as TCP has it.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from tests.simulation.simulated.faults import SECOND_MS, Faults
from tests.simulation.simulated.scheduler import Scheduler, Signal
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_service.network import Lost
from tests.simulation.simulated_service.service import Service
from tests.support.kafka_frames import answered, framed

PATIENCE_MS: Final = 30 * SECOND_MS
"""``request.timeout.ms`` of Kafka's clients."""
IMPATIENT: Final = 0.1
_LENGTH: Final = struct.Struct(">i")


class GatewayEnd(asyncio.Transport):
    """Belongs to the gateway's event loop."""

    def __init__(self, line: Line, service: Service) -> None:
        super().__init__()
        self._line = line
        self._loop = service.loop
        self._protocol: Any = None
        self._unread = bytearray()
        self._is_paused = self._is_closing = self._is_lost = self._is_hung_up = False

    def arrived(self, data: bytes, *, is_last: bool, is_reset: bool) -> None:
        """Bytes of the client, and perhaps that it hung up."""
        if self._is_closing:
            return
        self._unread += data
        self._feed()
        if is_last and not self._is_lost:
            self._is_hung_up = True
            if is_reset or not self._protocol.eof_received():
                self._lose(ConnectionResetError() if is_reset else None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio."""
        return ("10.0.0.1", 40_000) if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """See asyncio."""
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is written leaves at once."""

    def get_write_buffer_size(self) -> int:
        """See asyncio."""
        return 0

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """See asyncio."""
        if not self._is_closing:
            self._line.sent_back(b"".join(bytes(part) for part in list_of_data))

    def is_closing(self) -> bool:
        """See asyncio."""
        return self._is_closing

    def close(self) -> None:
        """See asyncio."""
        self.abort()

    def abort(self) -> None:
        """See asyncio."""
        if not self._is_closing:
            self._is_closing = True
            self._line.was_thrown_out = self._protocol is not None and not self._is_hung_up
            self._line.sent_back(None)
            self._loop.call_soon(self._lose, None)

    def pause_reading(self) -> None:
        """See asyncio."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """See asyncio."""
        self._is_paused = False
        self._loop.call_soon(self._feed)

    def _feed(self) -> None:
        while self._unread and not (self._is_paused or self._is_closing or self._is_lost):
            room = self._protocol.get_buffer(-1)
            size = min(len(room), len(self._unread))
            room[:size] = self._unread[:size]
            del self._unread[:size]
            self._protocol.buffer_updated(size)

    def _lose(self, error: Exception | None) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            if self._protocol is not None:
                self._protocol.connection_lost(error)


class Asked:
    """A request on a line, whose answer is awaited by ``Line.answer``."""

    def __init__(self, scheduler: Scheduler, name: str, version: int) -> None:
        self.name, self.version = name, version
        self.settled = Signal(scheduler)
        self.answer: Any = Lost.NO_ANSWER


class Line:
    """One connection. ``ask`` sends, ``answer`` waits; both from one process."""

    def __init__(self, scheduler: Scheduler, rng: random.Random, faults: Faults, service: Service) -> None:
        self.service = service
        self._scheduler, self._rng, self._faults = scheduler, rng, faults
        self._on_way: deque[tuple[bytes, bool]] = deque()
        self._on_way_back: deque[bytes | None] = deque()
        self._received = b""
        self._asked: dict[int, Asked] = {}
        self._answers_until: int | None = None
        """The last request that is answered; those behind it are answered into nothing."""
        self._is_broken = False
        self._correlation_id = 0
        self.is_open = service.machine.alive
        self.was_thrown_out = False
        """The gateway hung up first."""
        self._end = GatewayEnd(self, service)
        if self.is_open:
            service.connect(self._end)

    def ask(self, name: str, version: int, /, **values: Any) -> Asked:
        """Send a request: it may break the line, or its answer may."""
        asked = Asked(self._scheduler, name, version)
        if not self.is_open:
            asked.settled.give_up()
            return asked
        self._correlation_id += 1
        self._asked[self._correlation_id] = asked
        share = self._faults.profile.fault / 2 if self._faults.active else 0.0
        if self._rng.random() < share:
            self._is_broken = True
        if self._rng.random() < share and self._answers_until is None:
            self._answers_until = self._correlation_id - 1
        if not self._is_broken:
            self._send(framed(name, version, self._correlation_id, **values))
        return asked

    def answer(self, asked: Asked) -> Any:
        """Wait for the answer; without one the line is closed, and it is ``Lost.NO_ANSWER``. Raises ``Violation`` where the
        gateway did not want to go on with its client, as upon an unforeseen error."""
        impatient = self._faults.active and self._rng.random() < IMPATIENT
        self._scheduler.at(self._rng.randrange(1, 3 * SECOND_MS) if impatient else PATIENCE_MS, asked.settled.give_up)
        asked.settled.wait()
        if self.was_thrown_out:
            raise Violation(f"{self.service.machine.name} hung up on a client that asked it to {asked.name}")
        if asked.answer is Lost.NO_ANSWER:
            self.close()
        return asked.answer

    def call(self, name: str, version: int, /, **values: Any) -> Any:
        """The answer to a request, or ``Lost.NO_ANSWER``."""
        return self.answer(self.ask(name, version, **values))

    def close(self) -> None:
        """Hang up. What was asked and not answered never is."""
        if self.is_open:
            unread = b"".join(data for data, _ in self._on_way)
            self._on_way.clear()
            self._send(unread, is_last=True)
            self._over()

    # What the network does

    def sent_back(self, data: bytes | None) -> None:
        """The gateway sends; None: it hangs up."""
        self._on_way_back.append(data)
        self._scheduler.at(self._faults.travel_ms(), self._receive)

    def _send(self, data: bytes, *, is_last: bool = False) -> None:
        self._on_way.append((data, is_last))
        self._scheduler.at(self._faults.travel_ms(), self._deliver)

    def _deliver(self) -> None:
        if self._on_way and self.service.machine.alive:
            data, is_last = self._on_way.popleft()
            is_reset = is_last and self._faults.chance()
            self.service.loop.call_soon_threadsafe(self._give, data, is_last, is_reset)

    def _give(self, data: bytes, is_last: bool, is_reset: bool) -> None:
        self._end.arrived(data, is_last=is_last, is_reset=is_reset)

    def _receive(self) -> None:
        data = self._on_way_back.popleft()
        if not self.is_open:
            return
        if data is None:
            self._over()
            return
        self._received += data
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            frame, self._received = self._received[_LENGTH.size : end], self._received[end:]
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        (number,) = _LENGTH.unpack_from(frame)
        if self._answers_until is not None and number > self._answers_until:
            return
        asked = self._asked.pop(number)
        _, asked.answer = answered(asked.name, asked.version, frame)
        asked.settled.set()

    def _over(self) -> None:
        self.is_open = False
        for asked in self._asked.values():
            asked.settled.give_up()
        self._asked.clear()
