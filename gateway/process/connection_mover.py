"""Moves of client connections between the workers of one port, each to the worker that owns what its requests ask for.

A client that knows no owners reaches any worker, and requests for another worker's topics are forwarded: their bytes are
received, hashed and copied twice. So after ``MOVES_AFTER`` consecutive requests of a connection were answered by the same other
worker, the connection itself is handed to that worker, as a descriptor (``SCM_RIGHTS``, unix(7)). The client notices nothing.

1. A connection moves only between two requests: the system has the whole answer, and no byte of a next request was read. Bytes
   that arrive meanwhile stay in the socket.
2. It goes through a socket that belongs to the receiver's place and outlasts its processes: if the receiver is being replaced,
   its successor gets the connection. If that socket is full, the connection stays, and its requests are forwarded as before.
3. A worker accepts moved connections while it uses less than half of its limits, so a move refuses no client. Otherwise it hands
   them back (``_STAY``), and they do not move again.
4. A connection of a principal with quotas, and one over TLS, stays.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from gateway.process.movable_protocol import MovableProtocol
from gateway.process.worker import Worker

_MOVES: Final = b"m"
_STAY: Final = b"s"

_log = logging.getLogger("gateway.process.connection_mover")


class ConnectionMover:
    """Moves from and to one worker. ``room``: number of its connections up to which it accepts others."""

    def __init__(self, worker: Worker, room: int, registry: CollectorRegistry) -> None:
        self._worker = worker
        self._room = room
        self._places: dict[str, int] = {}
        self._receiving: Callable[[], MovableProtocol] | None = None
        self._count: Callable[[], int] = lambda: 0
        self._taking: set[asyncio.Task[None]] = set()
        self._moved = Counter(
            "tidelog_moved_connections",
            "Connections passed to another worker of this port: moved to their owner, or returned by a full worker.",
            ("outcome",),
            registry=registry,
        )

    def begin(self, own_url: str, receiving: Callable[[], MovableProtocol], count: Callable[[], int]) -> None:
        """Start accepting connections of other workers.

        Args:
            own_url: URL at which other gateways reach this worker.
            receiving: Makes the protocol of an accepted connection.
            count: Returns the number of this worker's connections.
        """
        root = own_url.rstrip("/").rpartition(":")[0]
        ports = enumerate(self._worker.ports)
        self._places = {f"{root}:{port}": number for number, port in ports if number != self._worker.number}
        self._receiving, self._count = receiving, count
        asyncio.get_running_loop().add_reader(self._worker.inbox.fileno(), self._on_arrival)

    def end(self) -> None:
        """Stop accepting connections and handing them over. Connections in transit are left to the successor. Idempotent."""
        self._places = {}
        if self._receiving is not None:
            self._receiving = None
            asyncio.get_running_loop().remove_reader(self._worker.inbox.fileno())

    def hand_over(self, url: str, descriptor: int) -> bool:
        """Send the connection to the worker at ``url``. Return whether it was sent: then this process must let go of it."""
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
            return  # another process of this place has received it
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

    async def _take(self, protocol: MovableProtocol, connection: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)
        except OSError:
            connection.close()

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)
