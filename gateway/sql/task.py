"""Messages between a gateway and a statement's process: frames over its standard input and output.

The gateway sends the statement, the process ``ParsedStatement``. For each block of records the gateway sends the topic's
name and an Arrow stream, then an empty frame and the media type of the answer. The process sends ``StatementAnswer``.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct("<I")
"""Length in front of each frame."""
STATEMENT_CHARACTERS_MAX: Final = 20_000
ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Most bytes of all rows, as JSON."""
ROWS_MAX: Final = 1_000
FILE_ROWS_MAX: Final = 50_000
"""Most rows of a Parquet file, which takes ``ANSWER_BYTES_MAX`` at most, too."""
CPU_S_MAX: Final = 10
"""Seconds of CPU time for everything that the process does with a statement."""
LIFE_S_MAX: Final = 120
"""Seconds after which the system ends the process if its gateway has ended: longer than a gateway waits."""
FRAME_BYTES_MAX: Final = 2 * ANSWER_BYTES_MAX
"""Most bytes of a message of the process: rows and names of columns, of which a statement may have many."""


class ParsedStatement(msgspec.Struct, frozen=True):
    """The topics that the statement names, or why it can't be answered."""

    topics: tuple[str, ...] = ()
    error: str | None = None


class Column(msgspec.Struct, frozen=True):
    """A column of the answer."""

    name: str
    type: str


class StatementAnswer(msgspec.Struct, frozen=True):
    """The answer, or why there is none. ``more``: further rows were left out; ``file``: the rows as Parquet, if that was asked
    for."""

    columns: tuple[Column, ...] = ()
    rows: msgspec.Raw = msgspec.Raw(b"[]")
    more: bool = False
    file: bytes = b""
    error: str | None = None


def frame(data: bytes) -> bytes:
    """Return the data as one frame."""
    return LENGTH.pack(len(data)) + data
