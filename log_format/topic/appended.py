"""The places of appended records: the answer to an append."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Appended:
    """The place of a batch's records for one partition: ``[base_offset, base_offset + count)``."""

    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The batch is in the log already, from an earlier try; these are its places. Nothing was appended."""

    places: tuple[Appended, ...]
