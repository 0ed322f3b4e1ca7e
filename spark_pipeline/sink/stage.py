"""One task of a write: its records as objects beside the topics, which become records when the driver commits them.

An object is what transactions stage (``log_format.staged_records``), under the job's own prefix. One that no commit takes, since
its task failed or ran twice, is deleted with the prefix when the job has ended.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from log_format import layout
from log_format.clock import SystemClock
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.record_bytes import record_bytes
from log_format.staged_records import StagedRecords, encode_staged
from log_format.topic_log import TopicLog
from log_format.topic_state import TopicState
from spark_pipeline.sink.columns import by_topic, partitions_of, to_records
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.source.store_access import opened

STAGED: Final = f"{layout.SYSTEM}spark/staged/"
OBJECT_BYTES: Final = 32 * 1024 * 1024
"""Records of one staged object, at about which it is put: what a task holds in memory."""
_LOGS_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class StagedObject:
    """One staged object: which topic's, and how large it and its largest record are."""

    key: str
    topic: str
    size_bytes: int
    record_bytes_max: int


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):
    """What a task tells the driver. ``query_id`` and ``batch`` are those of a stream."""

    objects: tuple[StagedObject, ...]
    query_id: str | None
    batch: int | None


def stage(rows: Iterable[pa.RecordBatch], options: SinkOptions, job_id: str) -> StagedTask:
    """Put the rows beside the topics. Raises ``OptionRefused``, ``RequestRefused``, ``StoreUnavailable``, ``CorruptData``."""
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    prefix = staged_prefix(job_id if query_id is None or batch is None else f"{query_id}/{batch}")
    first = 0 if context is None else context.partitionId()
    objects: list[StagedObject] = []
    waiting: dict[str, list[StagedRecords]] = {}
    sizes: dict[str, int] = {}
    for topic, state, records in _routed(rows, options, first):
        if records.records.num_rows == 0:
            continue
        largest = int(record_bytes(records.records).max())
        if largest > state.config.integer("max.message.bytes"):
            raise RequestRefused(
                f"A record of {largest} bytes is above max.message.bytes of topic {topic!r}.",
                code=ErrorCode.RECORD_TOO_LARGE,
            )
        if state.config.needs_keys and records.records.column("key").null_count:
            raise RequestRefused(f"Topic {topic!r} compacts keys, and a row has none.", code=ErrorCode.INVALID_RECORD)
        waiting.setdefault(topic, []).append(records)
        sizes[topic] = sizes.get(topic, 0) + records.records.nbytes
        if sizes[topic] >= OBJECT_BYTES:
            objects.append(_put(prefix, options, waiting.pop(topic)))
            del sizes[topic]
    objects += [_put(prefix, options, parts) for parts in waiting.values()]
    return StagedTask(tuple(objects), query_id, None if batch is None else int(batch))


def staged_prefix(job: str) -> str:
    """Where the records of a job are on their way; ``job`` is a query's id and the batch's number, or a name of its own."""
    return f"{STAGED}{job}/"


@functools.lru_cache(maxsize=_LOGS_MAX)
def topic_log(store: str, topic: str) -> TopicLog:
    """The topic's log, kept as long as the process."""
    return TopicLog(opened(store), topic, SystemClock())


def _routed(
    rows: Iterable[pa.RecordBatch], options: SinkOptions, first: int
) -> Iterator[tuple[str, TopicState, StagedRecords]]:
    states: dict[str, TopicState] = {}
    turn = first
    for batch in rows:
        for topic, of_topic in by_topic(batch, options.topic):
            state = states.get(topic)
            if state is None:
                state = states[topic] = topic_log(options.store, topic).refresh()
            if state.topic_id is None:
                raise UnknownTopic(topic)
            partitions = partitions_of(of_topic, state, turn)
            turn += of_topic.num_rows
            records = to_records(of_topic, time.time_ns() // 1_000_000)
            yield (
                topic,
                state,
                StagedRecords(topic=topic, topic_id=state.topic_id, records=records, partitions=partitions),
            )


def _put(prefix: str, options: SinkOptions, parts: list[StagedRecords]) -> StagedObject:
    records = StagedRecords(
        topic=parts[0].topic,
        topic_id=parts[0].topic_id,
        records=pa.concat_tables([part.records for part in parts]).combine_chunks(),
        partitions=np.concatenate([part.partitions for part in parts]),
    )
    data = encode_staged(records)
    key = f"{prefix}{uuid.uuid4().hex}.arrow"
    opened(options.store).put(key, data)
    return StagedObject(key, records.topic, len(data), int(record_bytes(records.records).max()))
