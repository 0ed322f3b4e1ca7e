"""Positions of a query, by topic and partition, and their form in a checkpoint.

Spark writes into the checkpoint what Kafka's source would, ``{"topic": {"0": 123}}``: the next offset to read of each
partition. In addition there is ``{"@topic_ids": {"topic": "…"}}``, a name that no topic can have: a position belongs to a
topic, and a topic recreated under the name has another id. Older checkpoints have no ids. In options ``-2`` is the earliest and
``-1`` the latest offset, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LATEST: Final = -1
EARLIEST: Final = -2

Positions = dict[str, dict[int, int]]
"""Topic -> partition -> offset: the next to read, or where to stop (exclusive)."""
TopicIds = Mapping[str, str]
"""Topic -> id of the topic to which its positions belong."""

TOPIC_IDS: Final = "@topic_ids"
"""Member of a checkpoint's offsets that holds the ids."""


def to_json(positions: Positions, ids: TopicIds) -> dict[str, dict[str, Any]]:
    """Return the object for the checkpoint, sorted, so that equal positions are equal text."""
    found: dict[str, dict[str, Any]] = {
        topic: {str(partition): positions[topic][partition] for partition in sorted(positions[topic])}
        for topic in sorted(positions)
    }
    return {TOPIC_IDS: {topic: ids[topic] for topic in sorted(positions) if topic in ids}, **found}


def from_json(stored: Mapping[str, Mapping[str, Any]]) -> tuple[Positions, TopicIds]:
    """Return the positions and ids given to ``to_json``; the ids may be missing.

    Raises ``ValueError`` if a checkpoint holds something else.
    """
    try:
        positions = {
            topic: {int(partition): int(offset) for partition, offset in of.items()}
            for topic, of in stored.items()
            if topic != TOPIC_IDS
        }
        return positions, {topic: str(topic_id) for topic, topic_id in stored.get(TOPIC_IDS, {}).items()}
    except (AttributeError, TypeError, ValueError) as problem:
        raise ValueError(f"the checkpoint's offsets are not those of topics: {stored!r:.200}") from problem


def count_offsets(start: Positions, end: Positions) -> int:
    """Return the number of offsets in between; a partition that ``start`` does not have begins at 0."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, of in end.items()
        for partition, offset in of.items()
    )
