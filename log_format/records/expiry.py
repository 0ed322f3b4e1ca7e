"""The time at which records expire, from the header ``expires_at``: milliseconds since the epoch in decimal digits.

Only a header of 1 to 15 ASCII digits counts; any other is ignored. If several count, the last one does, since a later header
overrides an earlier one in Kafka's clients.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

EXPIRES_AT: Final = "expires_at"
"""Name of the header, and of a record's JSON member that becomes this header."""
NEVER_MS: Final = 2**63 - 1
_DIGITS: Final = r"\A[0-9]{1,15}\z"


def expiry_times_ms(headers: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return when each record expires, ``NEVER_MS`` if it does not. ``headers``: the column of ``RECORD_SCHEMA``."""
    times = np.full(len(headers), NEVER_MS, dtype=np.int64)
    first = 0
    for chunk in headers.chunks:
        if chunk.null_count < len(chunk):
            _find(chunk, times[first : first + len(chunk)])
        first += len(chunk)
    return times


def expired_mask(headers: pa.ChunkedArray, now_ms: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the records that have expired at ``now_ms``. ``headers``: the column of ``RECORD_SCHEMA``."""
    return expiry_times_ms(headers) <= now_ms


def _find(headers: pa.ListArray, times: npt.NDArray[np.int64]) -> None:
    names, values = headers.flatten().flatten()
    named = pc.indices_nonzero(pc.equal(names, pa.scalar(EXPIRES_AT, pa.string())))
    if not len(named):
        return
    found = values.take(named)
    counted = pc.fill_null(pc.match_substring_regex(found, _DIGITS), False)
    rows = pc.list_parent_indices(headers).take(named).filter(counted).to_numpy()
    # numpy assigns in order, so if a record has several, the last one stays.
    times[rows] = found.filter(counted).cast(pa.string()).cast(pa.int64()).to_numpy()
