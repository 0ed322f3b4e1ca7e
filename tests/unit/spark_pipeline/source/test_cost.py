"""What a micro-batch costs the store, however long the topic's history is."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from log_format.append import Append, Batch
from log_format.clock import SystemClock
from log_format.committer import Committer
from log_format.records import BATCH_SCHEMA, TIMESTAMP
from log_format.segment_reader import SegmentReader
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic_changes import CreateTopic
from log_format.topic_config import TopicConfig
from log_format.topic_log import TopicLog
from spark_pipeline.schemas import KAFKA_SOURCE
from spark_pipeline.source import stream, task
from spark_pipeline.source.options import parse_options
from spark_pipeline.source.stream import StreamReader


class CountingStore:
    """A store that counts its calls."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            return call(*arguments, **named)

        return counting


def new_id() -> str:
    return uuid.uuid4().hex


def append(committer: Committer[Any], topic_id: str) -> None:
    """One commit with a record in each of two partitions."""
    columns = {
        "timestamp": pa.array([0, 0], TIMESTAMP),
        "key": [None, None],
        "value": [b"a", b"b"],
        "headers": [None, None],
    }
    records = pa.table(columns, schema=BATCH_SCHEMA)
    batch = Batch(topic_id=topic_id, records=records, partitions=np.array([0, 1], np.int32), record_bytes_max=1)
    committer.commit(Append([batch], new_id))


@pytest.mark.parametrize("history", [10, 1_000])
def test_a_micro_batch_costs_the_same_with_any_history(history: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request when nothing changed, one more for each commit since; a segment with all its partitions is one request."""
    store = CountingStore(MemoryStore())
    log = TopicLog(store, "t", SystemClock())  # type: ignore[arg-type]
    committer = Committer(log, new_id=new_id)
    committer.commit(CreateTopic(name="t", partition_count=2, config=TopicConfig.parse({}), topic_id=new_id()))
    topic_id = str(log.state.topic_id)
    for _ in range(history):
        append(committer, topic_id)
    segments = SegmentReader(store)  # type: ignore[arg-type]
    monkeypatch.setattr(stream, "opened", lambda _uri: store)
    monkeypatch.setattr(stream, "segment_reader", lambda _uri: segments)
    monkeypatch.setattr(task, "segment_reader", lambda _uri: segments)
    reader = StreamReader(parse_options({"store": "x", "subscribe": "t"}, streaming=True), KAFKA_SOURCE)
    position = reader.initialOffset()

    store.calls.clear()
    assert reader.latestOffset(position, ReadAllAvailable()) == position
    assert store.calls == {"get": 1}

    append(committer, topic_id)
    store.calls.clear()
    end = reader.latestOffset(position, ReadAllAvailable())
    (planned,) = reader.partitions(position, end)
    assert store.calls == {"get": 2}
    store.calls.clear()
    assert sum(batch.num_rows for batch in reader.read(planned)) == 2
    assert store.calls == {"get": 1}
    reader.stop()
