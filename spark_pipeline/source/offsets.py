"""Positions of a query, by topic and partition, and their form in a checkpoint.

Spark writes into the checkpoint what Kafka's source would: ``{"topic": {"0": 123}}``, the next offset to read of each
partition. In options ``-2`` is the earliest and ``-1`` the latest offset, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LATEST: Final = -1
EARLIEST: Final = -2

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> offset: the next to read, or where to stop (exclusive)."""


def to_json(positions: Positions) -> dict[str, dict[str, int]]:
    """The text for the checkpoint, sorted, so that equal positions are equal text."""
    return {
        topic: {str(partition): positions[topic][partition] for partition in sorted(positions[topic])}
        for topic in sorted(positions)
    }


def from_json(stored: Mapping[str, Mapping[str, Any]]) -> Positions:
    """What ``to_json`` gave. Raises ``ValueError`` where a checkpoint holds something else."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in of.items()} for topic, of in stored.items()
        }
    except (AttributeError, TypeError, ValueError) as problem:
        raise ValueError(f"the checkpoint's offsets are not those of topics: {stored!r:.200}") from problem


def count(start: Positions, end: Positions) -> int:
    """How many offsets lie between; a partition that ``start`` does not know begins at 0."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, of in end.items()
        for partition, offset in of.items()
    )
