"""The order in which files of the archive have their records: a plain sort by one column, or a Hilbert curve through several.

A value becomes its rank among the quantiles of a sample, so columns of any type and distribution are alike. Nulls come last. The
curve goes through the cube of these ranks and never jumps, so records next to each other are alike in every column. Ranks only
decide where a record is placed: a bad sample makes files worse, never wrong.

Source: J. Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import TypedColumns

RANK_BITS: Final = 10
"""Bits of a rank: 1,024 quantiles of each column, more than the row groups of the largest rewrite need."""

Codes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class LayoutOrder:
    """An order of records. ``bounds``: the values between the quantiles of each column, sorted."""

    columns: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    bounds: tuple[pa.Array, ...]

    @classmethod
    def of_sample(cls, columns: Sequence[str], typed: TypedColumns, sample: Sequence[pa.Table]) -> LayoutOrder:
        """Return the order by these columns.

        Args:
            columns: names as in ``table.cluster.by``; none for the order of partitions and offsets.
            typed: typed columns of the table. A column that is not among them has nulls only.
            sample: some of the records, of which other columns may be missing.
        """
        columns = tuple(columns) or ("partition", "offset")
        types = tuple(column_type(name, typed) for name in columns)
        values = [
            pa.chunked_array([column_values(part, name, kind) for part in sample], kind)
            for name, kind in zip(columns, types, strict=True)
        ]
        return cls(columns, types, tuple(map(_quantiles, values)))

    @property
    def is_by_offset(self) -> bool:
        """Whether records are sorted by partition and offset, and nothing else."""
        return self.columns == ("partition", "offset")

    def codes(self, records: pa.Table) -> Codes:
        """Return the place of each record in the order, roughly: records with smaller numbers come first."""
        ranks = [
            _ranks(column_values(records, name, kind), bounds)
            for name, kind, bounds in zip(self.columns, self.types, self.bounds, strict=True)
        ]
        if self.is_by_offset:
            return ranks[0] << np.uint64(RANK_BITS) | ranks[1]
        return ranks[0] if len(ranks) == 1 else hilbert_codes(ranks, RANK_BITS)

    def sort(self, records: pa.Table) -> pa.Table:
        """Return the records in this order. Records that are alike in it are sorted by the first column, partition, offset."""
        keys = {"first": column_values(records, self.columns[0], self.types[0])}
        if len(self.columns) > 1 and not self.is_by_offset:
            keys = {"code": pa.array(self.codes(records)), **keys}
        keys |= {name: records.column(name) for name in ("partition", "offset")}
        order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
        return records.take(order)


def column_type(name: str, typed: TypedColumns) -> pa.DataType:
    """Return the type of a column as it is sorted. A column that the table lacks, or whose values have no order, has nulls."""
    first, *rest = name.split(".")
    fields = [*RECORD_SCHEMA, *typed.fields()]
    kind = next((field.type for field in fields if field.name == first), pa.null())
    for part in rest:
        at = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        kind = kind.field(at).type if at >= 0 else pa.null()
    has_order = not (pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_boolean(kind))
    return kind if has_order else pa.int8()


def column_values(records: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column's values as ``kind``; null where the records do not have the column."""
    first, *rest = name.split(".")
    if first not in records.schema.names:
        return pa.nulls(records.num_rows, kind)
    values = records.column(first).combine_chunks()
    for part in rest:
        at = values.type.get_field_index(part) if pa.types.is_struct(values.type) else -1
        if at < 0:
            return pa.nulls(records.num_rows, kind)
        values = pc.struct_field(values, part)
    return pa.nulls(len(values), kind) if pa.types.is_nested(values.type) else values.cast(kind)


def hilbert_codes(ranks: Sequence[Codes], bits: int) -> Codes:
    """Return the position of each point on the Hilbert curve through a cube.

    Args:
        ranks: coordinates of the points along each of at least two axes, below ``2 ** bits``.
        bits: bits of a coordinate. All axes together have at most 64.
    """
    axes = [rank.copy() for rank in ranks]
    for bit in range(bits - 1, 0, -1):
        side, below = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for at, axis in enumerate(axes):
            is_far = (axis & side) != 0
            swapped = np.where(is_far, np.uint64(0), (axes[0] ^ axis) & below)
            axes[0] ^= np.where(is_far, below, swapped)
            axes[at] ^= swapped
    for at in range(1, len(axes)):
        axes[at] ^= axes[at - 1]
    turned = np.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        turned ^= np.where((axes[-1] & np.uint64(1 << bit)) != 0, np.uint64((1 << bit) - 1), np.uint64(0))
    codes = np.zeros_like(axes[0])
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            codes = codes << np.uint64(1) | ((axis ^ turned) >> np.uint64(bit) & np.uint64(1))
    return codes


def _quantiles(values: pa.ChunkedArray) -> pa.Array:
    present = values.drop_null().combine_chunks()
    ordered = present.take(pc.array_sort_indices(present))
    count = min((1 << RANK_BITS) - 1, len(ordered))
    return ordered.take(pa.array(np.arange(1, count + 1) * len(ordered) // (count + 1)))


def _ranks(values: pa.Array, bounds: pa.Array) -> Codes:
    """Return how many bounds are at most each value; all for nulls. One stable sort of both finds it for values of any type."""
    together = pa.concat_arrays([bounds.cast(values.type), values])
    order = pc.array_sort_indices(together).to_numpy()
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.cumsum(order < len(bounds))
    return ranks[len(bounds) :]
