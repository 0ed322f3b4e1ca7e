"""A connection's transport that lets its protocol close it gently, and counts written bytes."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Gentle(Protocol):
    """The protocol behind it."""

    lingering_since_ms: int | None

    def close_gently(self) -> None:
        """Close the connection once the client had time to read its answer."""
        ...


class GentleTransport:
    """The connection's transport, except that ``close`` lets the client read its answer and written bytes are counted."""

    __slots__ = (
        "_carrier",
        "_protocol",
        "get_extra_info",
        "pause_reading",
        "resume_reading",
        "set_protocol",
        "transport",
        "written_bytes",
    )

    def __init__(
        self, transport: asyncio.Transport, protocol: Gentle, carrier: asyncio.Transport | None = None
    ) -> None:
        """``carrier``: where ``transport`` itself writes, if that is not the system."""
        self.transport = transport
        self._carrier = carrier
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol
        self.written_bytes = 0
        self._protocol = protocol

    def write(self, data: bytes) -> None:
        """Send, and count."""
        self.written_bytes += len(data)
        self.transport.write(data)

    def unsent_bytes(self) -> int:
        """Written bytes that the system has not taken yet."""
        unsent_bytes = self.transport.get_write_buffer_size()
        return unsent_bytes if self._carrier is None else unsent_bytes + self._carrier.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._protocol.lingering_since_ms is not None or self.transport.is_closing()

    def close(self) -> None:
        """Leave closing to the protocol."""
        self._protocol.close_gently()
