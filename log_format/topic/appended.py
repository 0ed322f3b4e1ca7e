"""The offset ranges that appended records got: the answer to an append."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppendedRange:
    """The offset range that a batch's records for one partition got: ``[base_offset, base_offset + count)``."""

    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Result for a batch that an earlier try already appended, at these offset ranges. Nothing was appended this time."""

    places: tuple[AppendedRange, ...]
