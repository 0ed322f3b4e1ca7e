"""The driver's commit of a batch: once in the topic, whichever request to the store was the last of a driver that died."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from log_format.clock import SystemClock
from log_format.committer import Committer
from log_format.errors import RequestRefused
from log_format.segment_reader import SegmentReader
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic_changes import CreateTopic
from log_format.topic_config import TopicConfig
from log_format.topic_log import TopicLog
from spark_pipeline.sink import commit, stage
from spark_pipeline.sink.commit import BatchRefused, commit_batch
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.stage import STAGED, StagedTask

OPTIONS = SinkOptions(store="memory://under-test", topic=None)
QUERY = "a-query"
TOPICS = ("a", "b")


class Died(BaseException):
    """The driver is gone: nobody's handler runs."""


class DyingStore:
    """A store whose caller dies at its ``calls_left``-th change, before or behind it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.calls_left: int | None = None
        self.is_behind = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in ("put", "put_if_absent", "delete"):
            return call

        def changing(*arguments: Any) -> Any:
            if self.calls_left is None:
                return call(*arguments)
            self.calls_left -= 1
            if self.calls_left < 0 and not self.is_behind:
                raise Died
            result = call(*arguments)
            if self.calls_left < 0:
                raise Died
            return result

        return changing


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[DyingStore]:
    """A store with two topics, as ``OPTIONS`` names it."""
    dying = DyingStore(MemoryStore())
    for module in (stage, commit):
        monkeypatch.setattr(module, "opened", lambda _uri: dying)
    monkeypatch.setattr(commit, "_PAUSE_MS", 0)
    for topic in TOPICS:
        make_topic(dying, topic)
    stage.topic_log.cache_clear()
    yield dying
    stage.topic_log.cache_clear()


def make_topic(store: DyingStore, topic: str, **config: object) -> None:
    new: Callable[[], str] = lambda: uuid.uuid4().hex  # noqa: E731
    log = TopicLog(store, topic, SystemClock())
    Committer(log, new_id=new).commit(
        CreateTopic(name=topic, partition_count=2, config=TopicConfig.parse(config), topic_id=new())
    )


def staged(batch: int, topics: tuple[str, ...] = TOPICS, query: str | None = QUERY) -> StagedTask:
    """Two rows for each topic, staged as an executor would."""
    rows = pa.record_batch(
        {
            "topic": [topic for topic in topics for _ in range(2)],
            "value": [f"{topic}-{batch}-{row}".encode() for topic in topics for row in range(2)],
        }
    )
    task = stage.stage([rows], OPTIONS, f"{query}/{batch}" if query else "job")
    return StagedTask(task.objects, query, batch if query else None)


def values(store: DyingStore, topic: str) -> list[str]:
    reader = SegmentReader(store)
    state = TopicLog(store, topic, SystemClock()).refresh()
    found = []
    for partition in range(state.partition_count):
        for run in state.manifest.runs(partition):
            records = reader.read(topic, run.segment, partition, 0, bytes_max=2**30, records_max=2**30)
            found += [value.decode() for value in records.column("value").to_pylist()]
    return sorted(found)


def expected(topic: str, batches: range) -> list[str]:
    return sorted(f"{topic}-{batch}-{row}" for batch in batches for row in range(2))


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_driver_that_dies_anywhere_writes_each_batch_once(store: DyingStore, is_behind: bool) -> None:
    """For each change of a commit: die there, repeat the batch from the start in a new process, and go on with the next."""
    store.is_behind = is_behind
    batch = died = 0
    while True:
        tasks = [staged(batch)]
        store.calls_left = died
        try:
            commit_batch(tasks, OPTIONS, "")
        except Died:
            store.calls_left = None
            stage.topic_log.cache_clear()
            commit_batch([staged(batch)], OPTIONS, "")
            died += 1
        else:
            break
        finally:
            store.calls_left = None
            batch += 1
    assert died > 6
    for topic in TOPICS:
        assert values(store, topic) == expected(topic, range(batch))
    assert not list(store.list(STAGED))


def test_a_repeat_with_other_records_changes_nothing(store: DyingStore) -> None:
    """What is in the log is the batch, whatever a repeat would make of it."""
    commit_batch([staged(0, ("a",))], OPTIONS, "")
    again = staged(0, ("a", "b"))
    commit_batch([again], OPTIONS, "")
    assert values(store, "a") == expected("a", range(1))
    assert values(store, "b") == expected("b", range(1))


def test_an_old_checkpoint_is_refused(store: DyingStore) -> None:
    """A batch older than what the topic has would come out of order."""
    for batch in range(3):
        commit_batch([staged(batch)], OPTIONS, "")
    with pytest.raises(RequestRefused, match=r"Epoch 1 of producer .* is fenced: epoch 2 has begun"):
        commit_batch([staged(1)], OPTIONS, "")
    assert values(store, "a") == expected("a", range(3))


def test_a_query_that_is_forgotten(store: DyingStore) -> None:
    """The next batch of a query that rested is written; one that may be in the log already is not."""
    make_topic(store, "short", **{"producer.id.expiration.ms": 1})
    for batch in range(2):
        commit_batch([staged(batch, ("short",))], OPTIONS, "")
        SystemClock().sleep_ms(5)
    with pytest.raises(BatchRefused, match=r"has forgotten query a-query.*batch 1"):
        commit_batch([staged(1, ("short",))], OPTIONS, "")
    commit_batch([staged(2, ("short",))], OPTIONS, "")
    assert values(store, "short") == expected("short", range(3))


def test_jobs_without_a_query_append_each_time(store: DyingStore) -> None:
    """A batch write is its own producer; nothing is remembered of it, and nothing is left."""
    for _ in range(2):
        commit_batch([staged(0, ("a",), query=None)], OPTIONS, "job")
    assert values(store, "a") == sorted(expected("a", range(1)) * 2)
    assert not list(store.list("system/spark/"))


def test_a_batch_too_large_for_a_commit_is_refused(store: DyingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything of it is committed, with what to do."""
    monkeypatch.setattr(commit, "BATCH_BYTES_MAX", 10)
    with pytest.raises(BatchRefused, match="maxOffsetsPerTrigger"):
        commit_batch([staged(0)], OPTIONS, "")
    assert values(store, "a") == []
