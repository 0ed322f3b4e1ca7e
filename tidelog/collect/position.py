"""A position in a file, and the marks by which the same bytes are recognised."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Self

from tidelog.collect import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where the next record begins.

    ``offset`` counts (decompressed) bytes from 0. ``line`` is the number, from 1, of the line that this byte belongs to.
    ``part`` is how many parts of that line were sent already: above 0 only inside a line that is sent in parts.
    """

    offset: int = 0
    line: int = 1
    part: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no position."""
        if self.offset < 0 or self.line < 1 or self.part < 0:
            raise ValueError(f"{self} is no position")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The last bytes before a position: how many, and their CRC-32."""

    length: int = 0
    crc32: int = 0

    @classmethod
    def of(cls, consumed: bytes) -> Self:
        """Of the last ``TAIL_BYTES`` of what lies before a position."""
        last = consumed[-limits.TAIL_BYTES :]
        return cls(length=len(last), crc32=zlib.crc32(last))

    def matches(self, before: bytes) -> bool:
        """Whether ``before``, the ``length`` bytes before a position, are the same ones."""
        return len(before) == self.length and zlib.crc32(before) == self.crc32
