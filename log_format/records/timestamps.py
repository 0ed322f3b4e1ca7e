"""The timestamps of many records as numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_MICROSECONDS = 1_000


def timestamps_ms(records: pa.Table, absent_ms: int) -> npt.NDArray[np.int64]:
    """Return the timestamp of each record of ``BATCH_SCHEMA`` in milliseconds since the epoch; ``absent_ms`` for null."""
    numbers = pc.fill_null(records.column("timestamp").cast(pa.int64()), absent_ms * _MICROSECONDS)
    milliseconds: npt.NDArray[np.int64] = numbers.to_numpy() // _MICROSECONDS
    return milliseconds
