"""The timestamps of many records as numbers, and which of them are out of a range."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MICROSECONDS = 1_000


def times_ms(records: pa.Table, absent_ms: int) -> npt.NDArray[np.int64]:
    """Milliseconds since the epoch of each record of ``BATCH_SCHEMA``; ``absent_ms`` for those without."""
    numbers = pc.fill_null(records.column("timestamp").cast(pa.int64()), absent_ms * _MICROSECONDS)
    milliseconds: npt.NDArray[np.int64] = numbers.to_numpy() // _MICROSECONDS
    return milliseconds


def outside(times: npt.NDArray[np.int64], first_ms: int, last_ms: int) -> npt.NDArray[np.intp]:
    """The indices of the times that are not from ``first_ms`` to ``last_ms``."""
    return np.flatnonzero((times < first_ms) | (times > last_ms))
