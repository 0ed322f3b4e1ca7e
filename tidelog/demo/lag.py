"""Time between a record's acknowledgement and Spark's seeing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.demo.spark_job import Batch


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """Acknowledgements, one entry for each record, in any order."""

    partition: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    at_ms: npt.NDArray[np.float64]
    """Time when the producer got the acknowledgement, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag in milliseconds over all records; 0 where Spark was done before the producer got the acknowledgement."""

    p50_ms: float
    p99_ms: float
    max_ms: float


def lag(acknowledged: Acknowledgements, batches: Sequence[Batch]) -> Lag | None:
    """Return the time from each record's acknowledgement to the end of its micro-batch; None without records.

    ``batches`` must be in order; records in none of them are ignored.
    """
    done_at_ms = np.array([batch.done_at_ms for batch in batches], dtype=np.float64)
    parts: list[npt.NDArray[np.float64]] = []
    for partition in np.unique(acknowledged.partition):
        chosen = acknowledged.partition == partition
        next_offsets = np.array([batch.next_offsets.get(int(partition), 0) for batch in batches], dtype=np.int64)
        batch_index = np.searchsorted(next_offsets, acknowledged.offset[chosen], side="right")
        seen = batch_index < len(batches)
        parts.append(done_at_ms[batch_index[seen]] - acknowledged.at_ms[chosen][seen])
    lags = np.maximum(np.concatenate(parts), 0.0) if parts else np.empty(0)
    if not len(lags):
        return None
    p50, p99 = np.percentile(lags, [50, 99])
    return Lag(float(p50), float(p99), float(lags.max()))
