"""The outcome of an object's records, by the windows."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from log_format.scheduled.calendar import Window


class RecordOutcome(IntEnum):
    """The outcome of one delayed record."""

    WAITING = 0
    """No window covers the record's time yet."""
    TAKEN = 1
    """A window has the record: it is published, or about to be."""
    SKIPPED = 2
    """The window of the record's time skips it, since it was cancelled."""
    MISSED = 3
    """The window of the record's time does not name its object, which was put too late, so the record is never published."""


def record_outcomes(
    windows: Iterable[Window], name: str, due_ms: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int8]:
    """Return the ``RecordOutcome`` of each of these rows of the object. ``windows``: all that cover their times."""
    found = np.full(len(due_ms), RecordOutcome.WAITING, np.int8)
    for window in windows:
        covered = (due_ms > window.after_ms) & (due_ms <= window.until_ms)
        if name not in window.objects:
            found[covered] = RecordOutcome.MISSED
            continue
        found[covered] = RecordOutcome.TAKEN
        skipped = window.skipped.get(name)
        if skipped:
            found[covered & np.isin(rows, np.array(skipped, np.int64))] = RecordOutcome.SKIPPED
    return found
