"""Offsets of groups as the API writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.types.record import TopicPartition


def as_json_offsets(offsets: Mapping[TopicPartition, int], metadata: str | None = None) -> list[dict[str, Any]]:
    """The list for a commit; ``metadata``: text of the user's that goes with each. Raises ``ValueError``."""
    found = []
    for place, offset in sorted(offsets.items()):
        if offset < 0:
            raise ValueError(f"offset of {place.topic}/{place.partition} is {offset}, below 0")
        one: dict[str, Any] = {"topic": place.topic, "partition": place.partition, "offset": offset}
        if metadata is not None:
            one["metadata"] = metadata
        found.append(one)
    return found
