"""Where records went: the answer to an append."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Appended:
    """Where the records of a batch for one partition are: ``[base_offset, base_offset + count)``."""

    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already, by an earlier try; these are its places. Nothing was appended."""

    places: tuple[Appended, ...]
