"""How many records a topic got in each step of a recent time, by what its manifest knows. Nothing is read."""

from __future__ import annotations

from typing import Final

import numpy as np

from log_format.topic.state import TopicState

PARTITIONS_MAX: Final = 64
"""Number of partitions that are looked at; the records of more are estimated by these."""


def arrivals(state: TopicState, now_ms: int, count: int, step_ms: int) -> list[int]:
    """Return the records of each of the ``count`` steps of ``step_ms`` before ``now_ms``, the oldest step first.

    By the largest timestamp of each segment: between two of them records count as spread evenly, and those that no segment of the
    table has yet as new. Timestamps of producers may be wrong, and so may this be. O(partitions log segments).
    """
    edges = now_ms + step_ms * np.arange(-count, 1)
    edges[-1] = np.iinfo(np.int64).max  # clocks of producers may be ahead
    ends = np.zeros(count + 1)
    every = -(-state.partition_count // PARTITIONS_MAX)
    for partition in range(0, state.partition_count, every):
        found = state.manifest.ends_at(partition, edges, state.log_start(partition))
        found[-1] = state.high_watermark(partition)
        ends += found
    return np.diff(np.rint(ends * every)).astype(np.int64).tolist()  # type: ignore[no-any-return]
