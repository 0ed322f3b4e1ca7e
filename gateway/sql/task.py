"""What passes between a gateway and a statement's process: frames over its standard input and output.

gateway: the statement. Process: ``Named``. Gateway: for each block of records the topic's name and an Arrow stream, then an empty
frame. Process: ``Found``.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct("<I")
"""Ahead of each frame."""
STATEMENT_CHARACTERS_MAX: Final = 20_000
ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Of all rows, as JSON."""
ROWS_MAX: Final = 1_000
CPU_S_MAX: Final = 10
"""Of a processor, for all that the process does with a statement."""
LIFE_S_MAX: Final = 120
"""More than a gateway waits. Then the system ends the process, should its gateway be gone."""
FRAME_BYTES_MAX: Final = 2 * ANSWER_BYTES_MAX
"""Of what the process says: rows, and names of columns, of which a statement may have many."""


class Named(msgspec.Struct, frozen=True):
    """The topics that the statement names, or why it is none."""

    topics: tuple[str, ...] = ()
    error: str | None = None


class Column(msgspec.Struct, frozen=True):
    """Of the answer."""

    name: str
    type: str


class Found(msgspec.Struct, frozen=True):
    """The answer, or why there is none. ``more``: it was cut."""

    columns: tuple[Column, ...] = ()
    rows: msgspec.Raw = msgspec.Raw(b"[]")
    more: bool = False
    error: str | None = None


def framed(data: bytes) -> bytes:
    """As one frame."""
    return LENGTH.pack(len(data)) + data
