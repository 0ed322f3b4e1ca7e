"""Offsets of groups as the API writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.arguments import check_offset
from tidelog.types.group import NextOffset
from tidelog.types.record import TopicPartition


def as_json_offsets(offsets: Mapping[TopicPartition, NextOffset], metadata: str | None = None) -> list[dict[str, Any]]:
    """The list for a commit; ``metadata``: text that goes with each that has none of its own.

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
        found.append(one)
    return found


def next_offset(given: NextOffset) -> int:
    """Without its metadata. Raises ``TypeError`` for what is no offset."""
    offset = given[0] if isinstance(given, tuple) and given else given
    check_offset(offset)
    return int(offset)
