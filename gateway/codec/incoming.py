"""The records of one produce request, after parsing and before they have partitions and timestamps.

1. All or nothing: decoders return this or raise ``RequestRefused``, and never part of a request.
2. Decoders have checked all that needs no topic: types, ranges of timestamps, UTF-8, base64.
3. ``places`` names a record in its sender's terms, for errors found later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.codec.refusal import BadRecords
from log_format.records.schema import BATCH_SCHEMA

NO_PARTITION: Final = -1
"""In ``partitions``: the record names none."""
PARTITION_MAX: Final = 2**31 - 1

Partitions = npt.NDArray[np.int32]


class PlaceKind(Enum):
    """How a body's sender finds a record in it."""

    POINTER = "pointer"
    """By JSON pointer: ``/records/3/value``. Also for the rows of Arrow tables."""
    LINE = "line"
    """By line, from 1."""
    QUERY = "query"
    """The body is the value of the only record; everything else is a query parameter."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where in the body the records are."""

    kind: PlaceKind
    lines: Sequence[int] | npt.NDArray[np.int64] | None = None
    """With ``LINE``: the line of each record; None when record i is on line i + 1."""
    within: str = ""
    """With ``POINTER``: where in the whole body the object with ``records`` is."""

    def note(self, bad: BadRecords, index: int, member: str, what: str) -> None:
        """Note an error in ``member`` of the record at ``index``; empty: the record itself."""
        if self.kind is PlaceKind.POINTER:
            where = f"{self.within}/records/{index}"
            bad.add(f"{where}/{member}" if member else where, what)
        elif self.kind is PlaceKind.LINE:
            line = index + 1 if self.lines is None else int(self.lines[index])
            bad.add(f"line {line}", f"{member} {what}" if member else what)
        else:
            bad.add("body" if member in ("", "value") else member, what)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRecords:
    """``records`` has ``BATCH_SCHEMA``, but ``timestamp`` is null where the request names none.

    ``partitions`` are those that the records name, ``NO_PARTITION`` where they name none, and never less; None when no record
    names one. Whether the topic has them is checked by ``route``.
    """

    records: pa.Table
    partitions: Partitions | None = None
    places: Places = field(default_factory=lambda: Places(PlaceKind.POINTER))

    def __post_init__(self) -> None:
        assert self.records.schema.equals(BATCH_SCHEMA)
        assert self.partitions is None or len(self.partitions) == len(self)

    def __len__(self) -> int:
        count: int = self.records.num_rows
        return count
