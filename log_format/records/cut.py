"""Cutting records at a reader's limits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from log_format.records.size import record_bytes, record_bytes_at_most


def cut(table: pa.Table, *, bytes_max: int, records_max: int) -> pa.Table:
    """Return the longest head of ``table`` within both limits, but at least one record if there is one.

    Args:
        table: has ``key``, ``value`` and ``headers``. The result is a slice of it, without a copy.
        bytes_max: limit, counted as by ``record_bytes``.
        records_max: limit, at least 1. Raises ``ValueError`` for less.
    """
    if records_max < 1:
        raise ValueError(f"records_max is {records_max}, not at least 1")
    head = table.slice(0, records_max)
    if head.num_rows <= 1 or record_bytes_at_most(head) <= bytes_max:
        return head
    fitting = int(np.searchsorted(np.cumsum(record_bytes(head)), bytes_max, side="right"))
    return head.slice(0, max(1, fitting))
