"""A client's socket, lent to the reader that answers its request: a long body then costs the gateway's event loop nothing.

The gateway writes the answer's head and its last chunk. In between the reader writes the body's chunks (RFC 9112, section 7.1) to
the same socket, whose descriptor it gets with the word ``DIRECT``, and reports on the task's socket what the system has
accepted. So the gateway counts bytes, and disconnects a client that reads nothing, as if it wrote itself.

A report is ``LENGTH``: bytes of the body, and ``WAITS`` if the client has to read some before more can be written. Zero reports
that the body is written, ``GONE`` that the client has disconnected.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Protocol

from gateway.catch_up_reads.task import LENGTH

CLIENT_SOCKET: Final = "tidelog.client_socket"
"""Key in a request's scope of its connection's socket, if that can be lent."""
PASSED_ON: Final = b"p"
"""Word to the reader: the body goes to the gateway, which passes it on."""
DIRECT: Final = b"s"
"""Word to the reader: the body goes to the client, whose descriptor is sent along."""
WAITS: Final = 1 << 31
GONE: Final = (1 << 32) - 1
REPORTED_BYTES: Final = 1024 * 1024
"""Bytes after which the reader reports: each report wakes the gateway."""
STALL_REPORTED_MS: Final = 200
"""Time within which a client that reads again is not reported as waited for."""


class ClientSocket(Protocol):
    """A connection's socket that can be lent. Used on the event loop only."""

    @property
    def is_lost(self) -> bool:
        """Whether the connection has ended."""
        ...

    async def lend(self, on_lost: Callable[[], None]) -> int | None:
        """Return the descriptor once the system has accepted all written bytes; None if it can't be lent.

        Until ``take_back`` only the borrower writes to it. ``on_lost`` is called if the connection ends before that. Raises
        ``OSError`` if the connection has ended.
        """
        ...

    def count_written(self, byte_count: int, *, waits: bool) -> None:
        """Count bytes that the borrower wrote. ``waits``: whether the borrower waits for the client."""
        ...

    def take_back(self) -> None:
        """End the loan: the borrower writes no more."""
        ...

    async def drop(self) -> None:
        """Close the connection immediately; return when it has ended."""
        ...


class DirectBodyWriter:
    """Writer of a body to ``client``, which stays non-blocking for its other users. It reports to ``gateway``. Used in one
    thread."""

    def __init__(self, client: socket.socket, gateway: socket.socket) -> None:
        self._client = client
        self._gateway = gateway
        self._unreported_bytes = 0
        self._is_waited_for = False
        self._waiting = select.poll()
        self._waiting.register(client, select.POLLOUT)
        self._waiting.register(gateway, select.POLLIN)

    def write(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write the whole body. Raise ``OSError`` if the gateway does not want it any more."""
        try:
            for piece in pieces:
                size = b"%x\r\n" % len(piece)
                self._unreported_bytes -= len(size) + 2
                self._write([memoryview(each) for each in (size, piece, b"\r\n")])
                if self._unreported_bytes >= REPORTED_BYTES:
                    self._report()
        except (BrokenPipeError, ConnectionResetError):
            with suppress(OSError):
                self._gateway.sendall(LENGTH.pack(GONE))
            raise
        self._report()
        self._gateway.sendall(LENGTH.pack(0))

    def _write(self, buffers: list[memoryview]) -> None:
        while buffers:
            try:
                taken = self._client.sendmsg(buffers, (), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._wait()
                continue
            self._unreported_bytes += taken
            if self._is_waited_for:
                self._report()
            while buffers and taken >= len(buffers[0]):
                taken -= len(buffers.pop(0))
            if taken:
                buffers[0] = buffers[0][taken:]

    def _wait(self) -> None:
        """Wait until the client has read some bytes."""
        ready = self._waiting.poll(STALL_REPORTED_MS)
        if not ready:
            self._report(waits=True)
            ready = self._waiting.poll()
        if any(descriptor == self._gateway.fileno() for descriptor, _ in ready):
            raise OSError("the gateway does not want the answer any more")

    def _report(self, *, waits: bool = False) -> None:
        count = max(0, self._unreported_bytes)
        if count or waits:
            self._unreported_bytes -= count
            self._is_waited_for = waits
            self._gateway.sendall(LENGTH.pack(count | (WAITS if waits else 0)))
