"""Client connections move between the workers of one port: to the one that owns what they ask for.

A client that knows nothing of owners reaches any worker, and a request for another's topic is passed on: its bytes are received,
hashed and copied twice. So once ``MOVES_AFTER`` requests of a connection in a row were answered by the same other worker, the
connection itself is handed to it, as a descriptor (``SCM_RIGHTS``, unix(7)). The client notices nothing.

1. A connection moves only between two requests: the answer is with the system, and no byte of a next request was read. Bytes that
   come meanwhile wait in the connection.
2. It goes by a socket of the receiver's place, which outlasts its processes: a connection that is under way while the receiver
   is replaced waits for the successor. Where that socket is full, the connection stays, and its requests are passed on as before.
3. A worker takes connections in while it uses less than half of its limits, so a move refuses no client. Else it hands them back
   (``_STAY``), and they move no more.
4. A connection of a principal with quotas, and one over TLS, stays.

Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from gateway.process.moving_protocol import MovingProtocol
from gateway.process.worker import Worker

_MOVES: Final = b"m"
_STAY: Final = b"s"

_log = logging.getLogger("gateway.process.moving")


class Moving:
    """Of one worker. ``room``: how many connections it may have and still take in another's."""

    def __init__(self, worker: Worker, room: int, registry: CollectorRegistry) -> None:
        self._worker = worker
        self._room = room
        self._places: dict[str, int] = {}
        self._receiving: Callable[[], MovingProtocol] | None = None
        self._count: Callable[[], int] = lambda: 0
        self._taking: set[asyncio.Task[None]] = set()
        self._moved = Counter(
            "tidelog_moved_connections",
            "Connections handed to another worker of this port: moved to its owner, or handed back by one without room.",
            ("outcome",),
            registry=registry,
        )

    def begin(self, own_url: str, receiving: Callable[[], MovingProtocol], count: Callable[[], int]) -> None:
        """Take connections in. ``receiving`` makes a connection's protocol; ``count``: how many there are."""
        root = own_url.rstrip("/").rpartition(":")[0]
        ports = enumerate(self._worker.ports)
        self._places = {f"{root}:{port}": number for number, port in ports if number != self._worker.number}
        self._receiving, self._count = receiving, count
        asyncio.get_running_loop().add_reader(self._worker.inbox.fileno(), self._on_arrival)

    def end(self) -> None:
        """Take no more in, and hand none over. Those under way are the successor's. Idempotent."""
        self._places = {}
        if self._receiving is not None:
            self._receiving = None
            asyncio.get_running_loop().remove_reader(self._worker.inbox.fileno())

    def hand_over(self, url: str, descriptor: int) -> bool:
        """Whether the connection is on its way to the worker at ``url``: then this process must let go of it."""
        number = self._places.get(url)
        if number is None or not self._send(number, _MOVES, descriptor):
            return False
        self._moved.labels("moved").inc()
        return True

    def _send(self, number: int, what: bytes, descriptor: int) -> bool:
        try:
            socket.send_fds(self._worker.outboxes[number], [what + bytes([self._worker.number])], [descriptor])
        except OSError as error:
            _log.debug("a connection stays: %r", error)
            return False
        return True

    def _on_arrival(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._worker.inbox, 2, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return  # another process of this place took it
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            has_room = self._count() < self._room
            if not has_room and message[:1] == _MOVES and self._send(message[1], _STAY, descriptor):
                self._moved.labels("handed back").inc()
                connection.close()
                continue
            assert self._receiving is not None
            protocol = self._receiving()
            protocol.came(may_move=message[:1] == _MOVES)
            self._keep(self._take(protocol, connection))

    async def _take(self, protocol: MovingProtocol, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)
