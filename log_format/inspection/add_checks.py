"""Checks of what an ``add`` says to readers that do not know Tidelog: ``stats`` and ``modificationTime``.

Such readers choose files by ``stats`` and order them by time. Wrong values hide records, or show them out of order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import msgspec

from log_format.errors import DECODE_ERRORS
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import statistics

_COUNT: Final = "numRecords"
_COLUMNS: Final = ("partition", "offset", "timestamp")


def check_statistics(text: str | None, runs: Sequence[Run]) -> str | None:
    """Return what is wrong with the ``stats`` of an ``add`` with these runs; None if they are right."""
    try:
        found = {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except DECODE_ERRORS:
        return "are not JSON"
    expected = msgspec.json.decode(statistics(runs), type=dict[str, Any])
    pairs = [(_COUNT, found.get(_COUNT), expected[_COUNT])]
    for name in ("minValues", "maxValues", "nullCount"):
        of_columns = found.get(name)
        values = of_columns if isinstance(of_columns, dict) else {}
        pairs += [(f"{name}.{column}", values.get(column), expected[name][column]) for column in _COLUMNS]
    for name, value, right in pairs:
        if _comparable(name, value) != _comparable(name, right):
            return f"give {name} as {value!r} instead of {right!r}"
    return None


def find_times_going_back(
    segments: Sequence[tuple[SegmentRef, Sequence[Run]]], times_ms: Sequence[int]
) -> Iterator[tuple[SegmentRef, int]]:
    """Yield each segment that is not younger than its predecessor in some partition, with that partition."""
    runs = sorted((run.partition, run.base_offset, index) for index, (_, runs) in enumerate(segments) for run in runs)
    for (partition, _, earlier), (same, _, later) in pairwise(runs):
        if partition == same and times_ms[later] <= times_ms[earlier]:
            yield segments[later][0], partition


def _comparable(name: str, value: Any) -> Any:
    """Return the value in one form, since a moment may be written in several ways."""
    if not name.endswith("Values.timestamp") or not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return value
