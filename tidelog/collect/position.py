"""Positions in a file, and the tails by which the same bytes are recognized."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Self

from tidelog.collect import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Beginning of the next record.

    ``offset``: (decompressed) bytes from 0. ``line``: number, from 1, of the line that this byte belongs to. ``part``: number
    of parts of that line already sent; above 0 only inside a line that is sent in parts.
    """

    offset: int = 0
    line: int = 1
    part: int = 0

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an invalid position."""
        if self.offset < 0 or self.line < 1 or self.part < 0:
            raise ValueError(f"{self} is not a position")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Last bytes before a position: their number and CRC-32."""

    length: int = 0
    crc32: int = 0

    @classmethod
    def of(cls, consumed: bytes) -> Self:
        """Return the tail of ``consumed``, the bytes before a position."""
        last = consumed[-limits.TAIL_BYTES :]
        return cls(length=len(last), crc32=zlib.crc32(last))

    def matches(self, before: bytes) -> bool:
        """Return whether ``before``, the ``length`` bytes before a position, are the same."""
        return len(before) == self.length and zlib.crc32(before) == self.crc32
