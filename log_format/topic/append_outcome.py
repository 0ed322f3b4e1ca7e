"""The answer to an append: the offset ranges that the records got, or the error that refused them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from log_format.errors import TidelogError


@dataclass(frozen=True, slots=True)
class AppendedRange:
    """The offset range that a batch's records for one partition got: ``[base_offset, base_offset + count)``."""

    partition: int
    base_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Result for a batch that an earlier try already appended, at these offset ranges. Nothing was appended this time."""

    offset_ranges: tuple[AppendedRange, ...]


AppendOutcome = tuple[AppendedRange, ...] | Duplicate | TidelogError
"""Offset ranges of a batch's records, the ranges that an earlier try got, or the error that refused the batch."""
AppendResult = Sequence[AppendOutcome]
"""One outcome for each batch."""


def encode_ranges(offset_ranges: Iterable[AppendedRange]) -> list[tuple[int, int, int]]:
    """Return the ranges as plain tuples, for tags and checkpoints: (partition, base offset, count)."""
    return [(one.partition, one.base_offset, one.count) for one in offset_ranges]


def decode_ranges(plain: Iterable[tuple[int, int, int]]) -> tuple[AppendedRange, ...]:
    """Decode the result of ``encode_ranges``."""
    return tuple(AppendedRange(*one) for one in plain)
