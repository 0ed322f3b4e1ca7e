"""What Spark calls when a write has failed: nothing of it is left beside the topics."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.transactions.staged_records import STAGED
from spark_pipeline.sink import commit, stage
from spark_pipeline.sink.batch_name import BatchName
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.writers import BatchWriter, StreamWriter

OPTIONS = SinkOptions(store="memory://under-test", topic="t")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    """A store with a topic, as ``OPTIONS`` names it."""
    made = MemoryStore()
    for module in (stage, commit):
        monkeypatch.setattr(module, "cached_store", lambda _uri: made)
    caches = (stage.topic_log, stage.producer_key, commit.open_transactions)
    for cache in caches:
        cache.cache_clear()
    create = CreateTopic(name="t", partition_count=1, config=TopicConfig.parse({}), topic_id="incarnation")
    Committer(TopicLog(made, "t", SystemClock()), new_id=lambda: "id").commit(create)
    yield made
    for cache in caches:
        cache.cache_clear()


def rows() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"value": [b"a"]})


def test_a_job_that_failed_leaves_nothing(store: MemoryStore) -> None:
    """Also of tasks that never told the driver what they had staged."""
    writer = BatchWriter(OPTIONS)
    writer.write(rows())
    assert list(store.list(STAGED))
    writer.abort([None])
    assert not list(store.list(STAGED))


def test_a_batch_that_failed_leaves_nothing_of_what_was_told(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark aborts by another object than the one that wrote."""
    monkeypatch.setattr("spark_pipeline.sink.writers.stream_batch_name", lambda: BatchName("q", 3))
    told = StreamWriter(OPTIONS).write(rows())
    StreamWriter(OPTIONS).abort([told, None], 3)
    assert not list(store.list(STAGED))
