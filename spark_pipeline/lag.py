"""Lag of a streaming query, from Spark's report."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def lag(query: StreamingQuery) -> dict[str, dict[int, int]]:
    """Return the number of records between the end of the query's last micro-batch and the topics' ends, by topic and
    partition.

    The ends are those of the query's last look; records committed later are not counted. Empty before the first micro-batch.
    Covers every source whose offsets are those of topics: ``format("tidelog")``, and Kafka's. Costs no request.
    """
    progress = query.lastProgress
    if progress is None:
        return {}
    sources: list[dict[str, Any]] = json.loads(progress.json)["sources"]
    found: dict[str, dict[int, int]] = {}
    for source in sources:
        latest, end = _positions(source.get("latestOffset")), _positions(source.get("endOffset"))
        for topic, of in latest.items():
            reached = end.get(topic, {})
            behind = {int(partition): max(0, offset - reached.get(partition, 0)) for partition, offset in of.items()}
            found.setdefault(topic, {}).update(behind)
    return found


def _positions(offset: Any) -> dict[str, dict[str, int]]:
    """Return the positions of an offset in Spark's report, given parsed or as text; empty for a source of another kind."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(parsed, dict) or not all(isinstance(of, dict) for of in parsed.values()):
        return {}
    # No topic's name begins with "@": the source stores the topics' ids under such a name.
    return {topic: of for topic, of in parsed.items() if not topic.startswith("@")}
