"""How far a streaming query is behind, from Spark's report."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def lag(query: StreamingQuery) -> dict[str, dict[int, int]]:
    """Records that the topics had at the query's last look and that its last micro-batch did not reach, by topic and partition.

    Empty before the first micro-batch. Covers every source whose offsets are those of topics: ``format("tidelog")``, and
    Kafka's. Costs no request. Records committed after the query's last look are not counted.
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
    """As Spark has it in its report, the source's JSON, parsed or as text; nothing for a source of another kind."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    if not isinstance(parsed, dict) or not all(isinstance(of, dict) for of in parsed.values()):
        return {}
    # No topic's name begins so: the source has the topics' ids there.
    return {topic: of for topic, of in parsed.items() if not topic.startswith("@")}
