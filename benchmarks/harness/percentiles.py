"""Percentiles by nearest rank: each is a value that was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def percentile(values: Sequence[float] | Array, fraction: float) -> float:
    """Return the least of the values that ``fraction`` of them do not exceed; NaN if there are no values."""
    if not len(values):
        return math.nan
    place = max(0, math.ceil(len(values) * fraction) - 1)
    return float(np.partition(np.asarray(values), place)[place])


def percentile_text(values: Sequence[float] | Array, fraction: float, digits: int = 1) -> str:
    """Return a percentile as a table's cell, empty if there are no values."""
    return f"{percentile(values, fraction):,.{digits}f}" if len(values) else ""
