"""Offsets of groups in the API's JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tidelog.arguments import check_offset
from tidelog.types.group import NextOffset
from tidelog.types.record import TopicPartition


def as_json_offsets(
    offsets: Mapping[TopicPartition, NextOffset],
    metadata: str | None = None,
    topic_ids: Mapping[TopicPartition, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the list for a commit.

    Args:
        offsets: the next offset to read of each partition.
        metadata: text for offsets that have none of their own.
        topic_ids: the topic to which each offset belongs, where known.

    Raises ``ValueError``, ``TypeError``.
    """
    found = []
    for place, given in sorted(offsets.items()):
        offset, text = next_offset(given), metadata
        if isinstance(given, tuple) and len(given) > 1 and given[1] is not None:
            text = given[1]
        if offset < 0:
            raise ValueError(f"offset of {place.topic}/{place.partition} is {offset}, below 0")
        one: dict[str, Any] = {"topic": place.topic, "partition": place.partition, "offset": offset}
        if text is not None:
            one["metadata"] = text
        if place in topic_ids:
            one["topic_id"] = topic_ids[place]
        found.append(one)
    return found


def next_offset(given: NextOffset) -> int:
    """Return the offset without its metadata. Raises ``TypeError`` for a value that is no offset."""
    offset = given[0] if isinstance(given, tuple) and given else given
    check_offset(offset)
    return int(offset)
