"""The topic of dead letters: it takes every record that its origin may hold."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import UnknownTopic
from log_format.stores import open_store
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState
from spark_pipeline.jobs.pipeline.dead_letters import HEADER_BYTES_MAX, ensure_topic
from spark_pipeline.option_refused import OptionRefused


def create(store: str, topic: str, partition_count: int, **config: int | str) -> None:
    settings = TopicConfig.parse({name.replace("_", "."): value for name, value in config.items()})
    change = CreateTopic(name=topic, partition_count=partition_count, config=settings, topic_id=uuid.uuid4().hex)
    log = TopicLog(open_store(store), topic, SystemClock())
    Committer(log, new_id=lambda: uuid.uuid4().hex).commit(change)


def state(store: str, topic: str) -> TopicState:
    return TopicLog(open_store(store), topic, SystemClock()).refresh()


def test_it_is_made_like_its_origin(tmp_path: Path) -> None:
    """As many partitions, larger records, and nothing is deleted for its age; again it is left alone."""
    store = str(tmp_path)
    create(store, "origin", 3, max_message_bytes=16 * 1024 * 1024)
    for _ in range(2):
        ensure_topic(store, "bad", "origin")
    made = state(store, "bad")
    assert (made.partition_count, made.version) == (3, 0)
    assert made.config.integer("retention.ms") == -1
    assert made.config.integer("max.message.bytes") == 16 * 1024 * 1024 + HEADER_BYTES_MAX


def test_one_that_is_there_is_widened(tmp_path: Path) -> None:
    """Its other settings are the operator's choice; its limit would stop the stream one day."""
    store = str(tmp_path)
    create(store, "origin", 1)
    create(store, "bad", 2, max_message_bytes=1_000, retention_ms=5)
    ensure_topic(store, "bad", "origin")
    limit = TopicConfig.parse({}).integer("max.message.bytes") + HEADER_BYTES_MAX
    assert state(store, "bad").config.overrides == {"max.message.bytes": limit, "retention.ms": 5}


def test_one_that_can_not_take_all_is_refused(tmp_path: Path) -> None:
    """One that compacts keys would keep the newest dead letter of a key; and where there is no origin nothing is made."""
    store = str(tmp_path)
    create(store, "origin", 1)
    create(store, "bad", 1, cleanup_policy="compact")
    with pytest.raises(OptionRefused, match="dead_letter_topic: bad compacts keys"):
        ensure_topic(store, "bad", "origin")
    with pytest.raises(UnknownTopic):
        ensure_topic(store, "other", "none")
    assert not state(store, "other").exists
