"""Long lists, costly patterns, and state that clients leave behind."""

from __future__ import annotations

from typing import Any

import httpx

PARTITIONS = 10_000
METADATA_PARTITIONS = 3_990


def wanted(topic: str, partitions: list[int]) -> dict[str, Any]:
    """The body of a fetch of these."""
    return {"partitions": [{"topic": topic, "partition": one, "offset": "earliest"} for one in partitions]}


def wide_pattern(number: int) -> str:
    """What costs most to compile. No two are the same: what was compiled once is remembered."""
    return f"(?i)t{{{number}}}" + "[!-\uffff]" * 190


def commit_metadata(http: httpx.Client, group: str, count: int, metadata: str | None, offset: int = 0) -> Any:
    """Offsets of topic ``t``, each with this metadata."""
    offsets = [{"topic": "t", "partition": one, "offset": offset, "metadata": metadata} for one in range(count)]
    return http.put(f"/v1/groups/{group}/offsets", json={"offsets": offsets})
