"""A connection's transport: closes gently, counts written bytes, sends an answer's head together with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

JOINED_BYTES_MAX: Final = 64 * 1024
"""Size up to which a piece of a body is joined to its head; a longer one is passed to the transport separately."""
_HEAD_BEGINS: Final = b"HTTP/"


class GentleProtocol(Protocol):
    """The protocol that owns the transport."""

    lingering_since_ms: int | None

    def close_gently(self) -> None:
        """Close the connection once the client had time to read its answer."""
        ...


class GentleTransport:
    """The connection's transport, except that ``close`` lets the client read its answer and written bytes are counted.

    uvicorn writes an answer's head and its body separately, and each would be a system call. So a head is held until the next
    write, at most until the event loop's next iteration.
    """

    __slots__ = (
        "_call_soon",
        "_carrier",
        "_head",
        "_protocol",
        "get_extra_info",
        "is_lent",
        "pause_reading",
        "resume_reading",
        "set_protocol",
        "transport",
        "unsent_elsewhere_bytes",
        "written_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        protocol: GentleProtocol,
        carrier: asyncio.Transport | None = None,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """Wrap ``transport``. ``carrier``: the transport below it, if any (TLS). ``call_soon``: the event loop's."""
        self.transport = transport
        self._carrier = carrier
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.written_bytes = 0
        self.is_lent = False
        """Whether another process writes to the socket: bytes from here would corrupt its output."""
        self.unsent_elsewhere_bytes = 0
        """1 while the other process waits for the client, else 0: its unsent bytes are not known here."""
        self._protocol = protocol
        self._call_soon = call_soon
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Send and count. Nothing is sent to a client that has disconnected. A write while another process writes aborts the
        connection."""
        if self.is_lent:
            self.transport.abort()
        if self.transport.is_closing():
            return
        self.written_bytes += len(data)
        if self._head is not None:
            head, self._head = self._head, None
            if len(data) <= JOINED_BYTES_MAX:
                self.transport.write(b"".join((head, data)))
            else:
                self.transport.writelines((head, data))
        elif data[:5] == _HEAD_BEGINS:
            self._head = data
            self._call_soon(self.flush)
        else:
            self.transport.write(data)

    def flush(self) -> None:
        """Send a head that is held."""
        if self._head is not None:
            head, self._head = self._head, None
            if not self.transport.is_closing():
                self.transport.write(head)

    def end(self) -> None:
        """Close the connection once the system has all written bytes."""
        self.flush()
        self.transport.close()

    @property
    def is_plain(self) -> bool:
        """Whether bytes go to the system unchanged, without TLS."""
        return self._carrier is None

    def unsent_bytes(self) -> int:
        """Return the number of written bytes that the system has not accepted yet."""
        unsent_bytes = self.transport.get_write_buffer_size() + len(self._head or b"") + self.unsent_elsewhere_bytes
        return unsent_bytes if self._carrier is None else unsent_bytes + self._carrier.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether nothing more can be sent."""
        return self._protocol.lingering_since_ms is not None or self.transport.is_closing()

    def is_gone(self) -> bool:
        """Return whether the other side has closed the connection, or the connection was aborted."""
        return self.transport.is_closing() or (self._carrier is not None and self._carrier.is_closing())

    def close(self) -> None:
        """Have the protocol close the connection gently."""
        self._protocol.close_gently()
