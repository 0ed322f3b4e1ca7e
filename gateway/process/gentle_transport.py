"""A connection's transport: closes gently, counts written bytes, sends an answer's head with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

JOINED_BYTES_MAX: Final = 64 * 1024
"""A longer piece of a body is not copied behind its head: the transport gets both, one after the other."""
_HEAD_BEGINS: Final = b"HTTP/"


class Gentle(Protocol):
    """The protocol behind it."""

    lingering_since_ms: int | None

    def close_gently(self) -> None:
        """Close the connection once the client had time to read its answer."""
        ...


class GentleTransport:
    """The connection's transport, except that ``close`` lets the client read its answer and written bytes are counted.

    uvicorn writes an answer's head and its body one after the other, and each would be a call of the system. So a head waits for
    what is written next, at most until the event loop's next turn.
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
        protocol: Gentle,
        carrier: asyncio.Transport | None = None,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        """``carrier``: where ``transport`` itself writes, if that is not the system. ``call_soon``: the event loop's."""
        self.transport = transport
        self._carrier = carrier
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.written_bytes = 0
        self.is_lent = False
        """Another process writes: one byte from here would stand in the middle of its own."""
        self.unsent_elsewhere_bytes = 0
        """What that one waits to write, or one byte for it."""
        self._protocol = protocol
        self._call_soon = call_soon
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """Send, and count. To a client that is gone nothing is sent: of requests sent ahead only the last is told."""
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
        """Send a head that waits."""
        if self._head is not None:
            head, self._head = self._head, None
            if not self.transport.is_closing():
                self.transport.write(head)

    def end(self) -> None:
        """Close the connection once the system has all that was written."""
        self.flush()
        self.transport.close()

    @property
    def is_plain(self) -> bool:
        """Whether what is written goes to the system as it is: no TLS."""
        return self._carrier is None

    def unsent_bytes(self) -> int:
        """Written bytes that the system has not taken yet."""
        unsent_bytes = self.transport.get_write_buffer_size() + len(self._head or b"") + self.unsent_elsewhere_bytes
        return unsent_bytes if self._carrier is None else unsent_bytes + self._carrier.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._protocol.lingering_since_ms is not None or self.transport.is_closing()

    def is_gone(self) -> bool:
        """Whether the other side has closed the connection, or it is cut."""
        return self.transport.is_closing() or (self._carrier is not None and self._carrier.is_closing())

    def close(self) -> None:
        """Leave closing to the protocol."""
        self._protocol.close_gently()
