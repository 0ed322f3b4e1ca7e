"""Positions in a checkpoint belong to a topic: with and without ids, and across a re-creation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source.loss import DataLoss
from spark_pipeline.source.offsets import from_json, to_json
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.stream import StreamReader
from tests.support.topic_writer import TopicWriter

Stored = dict[str, dict[str, Any]]


def written(store: str, count: int) -> TopicWriter:
    writer = TopicWriter(store, "t", partition_count=1)
    writer.append([(0, 1_763_683_200_000, None, b"%d" % number) for number in range(count)])
    return writer


def reader(store: str, fail: str) -> StreamReader:
    options = {"store": store, "subscribe": "t", "startingOffsets": "earliest", "failOnDataLoss": fail}
    return StreamReader(parse_options(options, streaming=True), KAFKA_SOURCE)


def rows(of: StreamReader, start: Stored, end: Stored) -> int:
    return sum(batch.num_rows for task in of.partitions(start, end) for batch in of.read(task))


def test_the_object_of_a_checkpoint() -> None:
    """Positions as Kafka's source has them, the ids beside them; a checkpoint of before has none; others are refused."""
    stored = to_json({"b": {1: 5, 0: 3}, "a": {0: 1}}, {"a": "A", "b": "B", "c": "C"})
    assert stored == {"@topic_ids": {"a": "A", "b": "B"}, "a": {"0": 1}, "b": {"0": 3, "1": 5}}
    assert from_json(stored) == ({"a": {0: 1}, "b": {0: 3, 1: 5}}, {"a": "A", "b": "B"})
    assert from_json({"a": {"0": 1}}) == ({"a": {0: 1}}, {})
    with pytest.raises(ValueError, match="not those of topics"):
        from_json({"a": {"x": 1}})


def test_a_checkpoint_of_before_gets_ids_with_its_next_batch(tmp_path: Path) -> None:
    """Its positions are taken for those of the topic that is there."""
    store = tmp_path.as_uri()
    writer = written(store, 12)
    of = reader(store, "true")
    end = of.latestOffset({"t": {"0": 10}}, ReadAllAvailable())
    assert end == {"@topic_ids": {"t": writer.log.state.topic_id}, "t": {"0": 12}}
    assert rows(of, {"t": {"0": 10}}, end) == 2
    of.stop()


def test_a_batch_that_was_planned_for_the_former_topic_reads_nothing_of_the_new_one(tmp_path: Path) -> None:
    """A query without failOnDataLoss that repeats it after a restart gets the new topic's records once, in the batch behind."""
    store = tmp_path.as_uri()
    writer = written(store, 10)
    before = reader(store, "false")
    start = before.initialOffset()
    end = before.latestOffset(start, ReadAllAvailable())
    before.stop()
    writer.delete()
    written(store, 20)
    with pytest.raises(DataLoss, match="made anew"):
        reader(store, "true").partitions(start, end)
    after = reader(store, "false")
    assert rows(after, start, end) == 0
    newest = after.latestOffset(end, ReadAllAvailable())
    assert rows(after, end, newest) == 20
    assert after.latestOffset(newest, ReadAllAvailable()) == newest
    assert rows(after, newest, newest) == 0
    after.stop()
