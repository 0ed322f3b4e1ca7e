"""The records of one produce request, after parsing and before they have partitions and timestamps.

1. All or nothing: decoders return all records of a request or raise ``RequestRefused``.
2. Decoders have checked everything that does not depend on the topic: types, ranges of timestamps, UTF-8, base64.
3. ``places`` names a record in its sender's terms, for errors found later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gateway.codec.refusal import BadRecords
from log_format.records.schema import BATCH_SCHEMA
from log_format.records.single import SingleRecord, records_to_table

NO_PARTITION: Final = -1
"""Value in ``partitions`` of a record that names no partition."""
PARTITION_MAX: Final = 2**31 - 1

NO_DELAY: Final = -1
"""Value in ``Delays`` of a record that names no delay."""

Partitions = npt.NDArray[np.int32]
Milliseconds = npt.NDArray[np.int64]


class LocationKind(Enum):
    """Way in which the sender of a body locates a record in it."""

    POINTER = "pointer"
    """JSON pointer: ``/records/3/value``. Also for the rows of Arrow tables."""
    LINE = "line"
    """Number of the line, from 1."""
    QUERY = "query"
    """The body is the value of the only record; its other members are query parameters."""


@dataclass(frozen=True, slots=True)
class RecordLocations:
    """Location of the records in the body."""

    kind: LocationKind
    lines: Sequence[int] | npt.NDArray[np.int64] | None = None
    """Line of each record, with ``LINE``; None if record i is on line i + 1."""
    within: str = ""
    """Pointer to the object with ``records`` in the whole body, with ``POINTER``."""

    def note(self, bad: BadRecords, index: int, member: str, what: str) -> None:
        """Note an error in ``member`` of the record at ``index``; an empty ``member`` means the record itself."""
        if self.kind is LocationKind.POINTER:
            where = f"{self.within}/records/{index}"
            bad.add(f"{where}/{member}" if member else where, what)
        elif self.kind is LocationKind.LINE:
            line = index + 1 if self.lines is None else int(self.lines[index])
            bad.add(f"line {line}", f"{member}: {what}" if member else what)
        else:
            bad.add("body" if member in ("", "value") else member, what)


@dataclass(frozen=True, slots=True)
class Delays:
    """Delivery times of records: a time, or a delay after their arrival; at most one of both for each record."""

    at: Milliseconds
    after: Milliseconds

    def due(self, arrived_at_ms: int) -> Milliseconds:
        """Return the delivery time of each record, ``NO_DELAY`` for one without."""
        return np.where(self.after != NO_DELAY, self.after + arrived_at_ms, self.at)


@dataclass(frozen=True, slots=True)
class GivenColumns:
    """Values of records that came as columns: the members of each, plain (``arrow_data``).

    Args:
        values: a struct for each record; null: its value is null.
        bytes_max: most bytes of the documents that are made of them.
    """

    values: pa.StructArray
    bytes_max: int


POINTERS: Final = RecordLocations(LocationKind.POINTER)


class IncomingRecords:
    """The records of one request. ``records`` has ``BATCH_SCHEMA``, with a null ``timestamp`` where the request names none.

    ``partitions`` are those that the records name, ``NO_PARTITION`` where they name none, and never less; None if no record names
    one. ``route`` checks whether the topic has them. ``delays`` None: no record has one. ``data``: values that came as columns,
    while those in ``records`` are null.

    ``single``: the request's only record, if it is a plain one. It becomes a table only when ``records`` is read.
    """

    __slots__ = ("_records", "data", "delays", "partitions", "places", "single")

    def __init__(
        self,
        records: pa.Table | SingleRecord,
        *,
        partitions: Partitions | None = None,
        places: RecordLocations = POINTERS,
        delays: Delays | None = None,
        data: GivenColumns | None = None,
    ) -> None:
        self.single: SingleRecord | None = None
        self._records: pa.Table | None = None
        if isinstance(records, SingleRecord):
            self.single = records
        else:
            assert records.schema.equals(BATCH_SCHEMA)
            self._records = records
        self.partitions = partitions
        self.places = places
        self.delays = delays
        self.data = data
        assert partitions is None or len(partitions) == len(self)

    @property
    def records(self) -> pa.Table:
        """The records as a table."""
        if self._records is None:
            assert self.single is not None
            self._records = records_to_table([self.single])
        return self._records

    def with_records(self, records: pa.Table) -> IncomingRecords:
        """Return the same request with other columns of the same records."""
        return IncomingRecords(
            records, partitions=self.partitions, places=self.places, delays=self.delays, data=self.data
        )

    def with_values(self, values: pa.Array) -> IncomingRecords:
        """Return the same request with these values of the records, which then did not come as columns."""
        records = self.records.set_column(BATCH_SCHEMA.get_field_index("value"), BATCH_SCHEMA.field("value"), values)
        return IncomingRecords(records, partitions=self.partitions, places=self.places, delays=self.delays)

    def within(self, where: str) -> IncomingRecords:
        """Return the same records as part of a larger body, where ``where`` is the JSON pointer to the object with
        ``records``."""
        given = self._records if self.single is None else self.single
        places = replace(self.places, within=where)
        return IncomingRecords(given, partitions=self.partitions, places=places, delays=self.delays)

    def __len__(self) -> int:
        return 1 if self.single is not None else self.records.num_rows
