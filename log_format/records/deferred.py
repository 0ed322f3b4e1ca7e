"""Records that their flush decodes, with those of its other batches in one pass: a step over columns of many batches costs little
more than over those of one.

What a batch's head tells is known before: how many records it has, and bounds of their size. Whether the records themselves are
valid is known afterwards; a batch whose records are not is refused by its flush, alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import pyarrow as pa

from log_format.errors import TidelogError


class Decoded(NamedTuple):
    """Records with ``BATCH_SCHEMA``, and the size of the largest of them."""

    table: pa.Table
    largest_bytes: int


class DeferredRecords(ABC):
    """Encoded records of one batch, at least one.

    ``count``: number of records. ``nbytes``: about what they take in memory, encoded and as a table. ``newest_ms``: largest
    timestamp as their sender says. ``outcome``: the decoded records, or why their batch is refused; None: not decoded yet.
    """

    __slots__ = ("count", "nbytes", "newest_ms", "outcome")

    def __init__(self, *, count: int, nbytes: int, newest_ms: int) -> None:
        assert count > 0
        self.count, self.nbytes, self.newest_ms = count, nbytes, newest_ms
        self.outcome: Decoded | TidelogError | None = None

    @classmethod
    @abstractmethod
    def decode(cls, some: Sequence[Self]) -> None:
        """Set the outcome of each of ``some``, which have none. Computes only; called by the thread that encodes the flush."""


def decode_deferred(records: Iterable[DeferredRecords | None]) -> None:
    """Decode all that is not decoded yet."""
    by_kind: dict[type[DeferredRecords], list[DeferredRecords]] = {}
    for one in records:
        if one is not None and one.outcome is None:
            by_kind.setdefault(type(one), []).append(one)
    for kind, some in by_kind.items():
        kind.decode(some)
