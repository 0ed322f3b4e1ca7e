"""When records expire: the header ``expires_at``, milliseconds since the epoch in decimal digits.

A header that is nothing but 1 to 15 ASCII digits counts; any other is ignored. Of several that count, the last one does, as a
later header overrides an earlier one in Kafka's clients.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

EXPIRES_AT: Final = "expires_at"
"""The header's name, and that of a record's member which becomes this header."""
NEVER_MS: Final = 2**63 - 1
_DIGITS: Final = r"\A[0-9]{1,15}\z"


def expiry_ms(headers: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """When each record expires, ``NEVER_MS`` where it does not. ``headers``: the column of ``RECORD_SCHEMA``."""
    times = np.full(len(headers), NEVER_MS, dtype=np.int64)
    first = 0
    for chunk in headers.chunks:
        if chunk.null_count < len(chunk):
            _find(chunk, times[first : first + len(chunk)])
        first += len(chunk)
    return times


def expired(headers: pa.ChunkedArray, now_ms: int) -> npt.NDArray[np.bool_]:
    """True for each record whose time has come. ``headers``: as for ``expiry_ms``."""
    return expiry_ms(headers) <= now_ms


def _find(headers: pa.ListArray, times: npt.NDArray[np.int64]) -> None:
    names, values = headers.flatten().flatten()
    named = pc.indices_nonzero(pc.equal(names, pa.scalar(EXPIRES_AT, pa.string())))
    if not len(named):
        return
    found = values.take(named)
    counted = pc.fill_null(pc.match_substring_regex(found, _DIGITS), False)
    rows = pc.list_parent_indices(headers).take(named).filter(counted).to_numpy()
    # Where one record has several, numpy assigns in order and the last stays.
    times[rows] = found.filter(counted).cast(pa.string()).cast(pa.int64()).to_numpy()
