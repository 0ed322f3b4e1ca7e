"""Delayed records in memory, and the records that are published from them.

A delayed record gets its partition when it is sent. Its timestamp is the sender's, or else the time at which it is due; with
``LogAppendTime`` it is the time of publication. The header ``tidelog-scheduled-for`` says when it was due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.schema import BATCH_SCHEMA, HEADER, HEADERS

SCHEDULED_FOR: Final = "tidelog-scheduled-for"
"""Name of the header of a published record: decimal milliseconds."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedRecords:
    """Delayed records with their partitions.

    ``records`` has ``BATCH_SCHEMA``. ``deliver_at``: ms since the epoch. ``indices``: the index of each record in its request.
    """

    records: pa.Table
    partitions: npt.NDArray[np.int32]
    deliver_at: Times
    indices: Times

    def __len__(self) -> int:
        count: int = self.records.num_rows
        return count

    @staticmethod
    def concatenate(parts: Sequence[DelayedRecords]) -> DelayedRecords:
        """Concatenate the parts in order."""
        return DelayedRecords(
            records=pa.concat_tables([one.records for one in parts]),
            partitions=np.concatenate([one.partitions for one in parts]),
            deliver_at=np.concatenate([one.deliver_at for one in parts]),
            indices=np.concatenate([one.indices for one in parts]),
        )

    def where(self, mask: npt.NDArray[np.bool_]) -> DelayedRecords:
        """Return the records where the mask is true."""
        return self.take(np.flatnonzero(mask))

    def take(self, order: npt.NDArray[np.int64]) -> DelayedRecords:
        """Return the records at these indices, in this order."""
        return DelayedRecords(
            records=self.records.take(pa.array(order)),
            partitions=self.partitions[order],
            deliver_at=self.deliver_at[order],
            indices=self.indices[order],
        )


def with_scheduled_header(records: pa.Table, deliver_at: Times) -> pa.Table:
    """Return the records, each with one more header after its own."""
    column = records.column("headers").combine_chunks()
    lists = column if isinstance(column, pa.ListArray) else pa.concat_arrays(column.chunks)
    counts = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    own = lists.flatten()
    values = pa.array(deliver_at, pa.int64()).cast(pa.string()).cast(pa.binary())
    names = pa.array([SCHEDULED_FOR], pa.string()).take(pa.array(np.zeros(len(values), np.int64)))
    both = pa.concat_arrays([own, pa.StructArray.from_arrays([names, values], fields=list(HEADER))])
    ends = np.cumsum(counts + 1)
    taken = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    is_new = np.zeros(len(taken), np.bool_)
    is_new[ends - 1] = True
    taken[is_new] = len(own) + np.arange(len(values))
    taken[~is_new] = np.arange(len(own))
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    headers = pa.ListArray.from_arrays(pa.array(offsets), both.take(pa.array(taken)), type=HEADERS)
    return records.set_column(BATCH_SCHEMA.get_field_index("headers"), BATCH_SCHEMA.field("headers"), headers)
