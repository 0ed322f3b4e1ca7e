"""Lag from what Spark reports, whatever other sources a query has."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql.streaming.query import StreamingQuery

from spark_pipeline.lag import lag


def query(*sources: dict[str, Any]) -> StreamingQuery:
    return cast("StreamingQuery", SimpleNamespace(lastProgress=SimpleNamespace(json=json.dumps({"sources": sources}))))


def test_what_is_left_of_each_partition() -> None:
    """Offsets parsed or as text; a partition that was not read yet counts from its beginning; nothing is below 0."""
    ours = {
        "endOffset": {"@topic_ids": {"t": "a"}, "t": {"0": 5, "1": 9}},
        "latestOffset": {"@topic_ids": {"t": "b"}, "t": {"0": 8, "1": 7, "2": 4}},
    }
    kafkas = {"endOffset": '{"k":{"0":1}}', "latestOffset": '{"k":{"0":2}}'}
    assert lag(query(ours, kafkas)) == {"t": {0: 3, 1: 0, 2: 4}, "k": {0: 1}}


def test_other_sources_and_queries_that_did_nothing_yet() -> None:
    """A rate source counts seconds, a file source says nothing; before the first micro-batch there is no report."""
    assert lag(query({"endOffset": 3, "latestOffset": 4}, {"endOffset": {"logOffset": 1}, "latestOffset": None})) == {}
    assert lag(cast("StreamingQuery", SimpleNamespace(lastProgress=None))) == {}
