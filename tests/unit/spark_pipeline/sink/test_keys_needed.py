"""Rows for a topic that compacts keys: one without a key fails its task, and nothing is staged."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import ErrorCode, RequestRefused
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.transactions.staged_records import STAGED
from spark_pipeline.sink import stage
from spark_pipeline.sink.options import SinkOptions


def test_a_row_without_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the gateways refuse it, before the driver hears of the task."""
    store = MemoryStore()
    monkeypatch.setattr(stage, "cached_store", lambda _uri: store)
    config = TopicConfig.parse({"cleanup.policy": "compact"})
    Committer(TopicLog(store, "t", SystemClock()), new_id=lambda: uuid.uuid4().hex).commit(
        CreateTopic(name="t", partition_count=1, config=config, topic_id="incarnation")
    )
    stage.topic_log.cache_clear()
    stage.producer_key.cache_clear()
    options, attempt = SinkOptions(store="memory://under-test", topic="t"), stage.new_attempt()
    try:
        with pytest.raises(RequestRefused) as refused:
            stage.stage([pa.record_batch({"key": [b"k", None], "value": [b"a", b"b"]})], options, attempt, None)
        assert refused.value.code is ErrorCode.INVALID_RECORD
        assert list(store.list(STAGED)) == []
        staged = stage.stage([pa.record_batch({"key": [b"k", b""], "value": [b"a", b"b"]})], options, attempt, None)
        assert len(staged.objects) == 1
    finally:
        stage.topic_log.cache_clear()
        stage.producer_key.cache_clear()
