"""A task of a write to the store: it stages objects, which become records when the driver commits them.

They are the staged records of a transaction (``log_format.transactions.staged_records``). Every task of the write knows the
transaction's id without a request: it follows from the driver's ``Attempt``, which all tasks have, and from the batch. An
object that the driver does not name, because its task failed or ran twice, is deleted with the others when the transaction has
ended.
"""

from __future__ import annotations

import functools
import hashlib
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.cluster.identity import load_cluster
from log_format.errors import ErrorCode, RequestRefused, UnknownTopic
from log_format.records.size import record_bytes
from log_format.records.timestamps import timestamps_ms
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.topic.producer_id import JOB, issue
from log_format.topic.state import TopicState
from log_format.transactions.staged_records import StagedRecords, encode_staged, staged_name, staged_prefix
from spark_pipeline.sink.batch_name import BatchName
from spark_pipeline.sink.columns import assign_partitions, given_values, split_by_topic, to_records
from spark_pipeline.sink.judged_values import judge_values
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.store_access import cached_store

OBJECT_BYTES: Final = 32 * 1024 * 1024
"""Approximate size of a staged object: the records that a task holds in memory."""
_LOGS_MAX: Final = 256
_READS_AT_ONCE: Final = 8
_NUMBERS: Final = 10**8
"""Range of numbers in staged objects' names; the decision gives the objects' order."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of Spark to write a batch, begun by the driver. Another attempt is another transaction."""

    token: str
    begun_ms: int


@dataclass(frozen=True, slots=True)
class StagedObject:
    """A staged object: its name, topic, the topic's incarnation, and its size."""

    name: str
    topic: str
    topic_id: str
    size_bytes: int


@dataclass(frozen=True)
class StagedTask(WriterCommitMessage):
    """Message of a task to the driver."""

    transaction_id: str
    objects: tuple[StagedObject, ...]
    batch: BatchName | None


def new_attempt() -> Attempt:
    """Return an attempt that begins now."""
    return Attempt(uuid.uuid4().hex, SystemClock().now_ms())


def make_transaction_id(attempt: Attempt, batch: BatchName | None, options: SinkOptions) -> str:
    """Return the transaction id of this attempt of the batch. Raises ``StoreUnavailable``, ``CorruptData``."""
    name = "" if batch is None else f"{batch.writer}/{batch.number}"
    randomness = hashlib.sha256(f"{attempt.token}/{name}".encode()).hexdigest()
    return issue(JOB, attempt.begun_ms, randomness, producer_key(options.store))


def stage(
    rows: Iterable[pa.RecordBatch], options: SinkOptions, attempt: Attempt, batch: BatchName | None
) -> StagedTask:
    """Stage the rows as objects. Raises ``OptionRefused``, ``RequestRefused``, ``StoreUnavailable``, ``CorruptData``."""
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    transaction_id = make_transaction_id(attempt, batch, options)
    objects: list[StagedObject] = []
    waiting: dict[str, list[StagedRecords]] = {}
    sizes: dict[str, int] = {}
    for topic, state, records in _route(rows, options, task):
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
        now_ms = SystemClock().now_ms()
        taken = state.config.accepted_times(now_ms)
        if taken is not None and len(taken.outside(timestamps_ms(records.records, now_ms))):
            raise RequestRefused(
                f"A row's timestamp is out of range: topic {topic!r}: {taken}.", code=ErrorCode.INVALID_RECORD
            )
        waiting.setdefault(topic, []).append(records)
        sizes[topic] = sizes.get(topic, 0) + records.records.nbytes
        if sizes[topic] >= OBJECT_BYTES:
            objects.append(_put(transaction_id, task, options, waiting.pop(topic)))
            del sizes[topic]
    objects += [_put(transaction_id, task, options, parts) for parts in waiting.values()]
    return StagedTask(transaction_id, tuple(objects), batch)


@functools.lru_cache(maxsize=_LOGS_MAX)
def topic_log(store: str, topic: str) -> TopicLog:
    """Return the topic's log, cached as long as the process lives."""
    return TopicLog(cached_store(store), topic, SystemClock(), fetch_all=commits_pool().map)


@functools.lru_cache(maxsize=_LOGS_MAX)
def schema_readers(store: str) -> StoredReaders:
    """Return the readers of topics' schemas, cached as long as the process lives."""
    return StoredReaders(cached_store(store), SystemClock())


@functools.lru_cache(maxsize=1)
def commits_pool() -> ThreadPoolExecutor:
    """Return the pool that reads the commits of a log in parallel."""
    return ThreadPoolExecutor(_READS_AT_ONCE, thread_name_prefix="tidelog-sink")


@functools.lru_cache(maxsize=_LOGS_MAX)
def producer_key(store: str) -> bytes:
    """Return the key that authenticates ids in this store. Raises ``StoreUnavailable``, ``CorruptData``."""
    return load_cluster(cached_store(store), lambda: uuid.uuid4().hex).producer_key


def _route(
    rows: Iterable[pa.RecordBatch], options: SinkOptions, first: int
) -> Iterator[tuple[str, TopicState, StagedRecords]]:
    states: dict[str, TopicState] = {}
    turn = first
    for batch in rows:
        for topic, of_topic in split_by_topic(batch, options.topic):
            state = states.get(topic)
            if state is None:
                state = states[topic] = topic_log(options.store, topic).refresh()
            if state.topic_id is None:
                raise UnknownTopic(topic)
            partitions = assign_partitions(of_topic, state, turn)
            turn += of_topic.num_rows
            records = to_records(of_topic, time.time_ns() // 1_000_000)
            records = judge_values(records, given_values(of_topic), state, schema_readers(options.store))
            yield (
                topic,
                state,
                StagedRecords(topic=topic, topic_id=state.topic_id, records=records, partitions=partitions),
            )


def _put(transaction_id: str, task: int, options: SinkOptions, parts: list[StagedRecords]) -> StagedObject:
    records = StagedRecords(
        topic=parts[0].topic,
        topic_id=parts[0].topic_id,
        records=pa.concat_tables([part.records for part in parts]).combine_chunks(),
        partitions=np.concatenate([part.partitions for part in parts]),
    )
    data = encode_staged(records)
    name = staged_name(task % _NUMBERS, records.topic, None, uuid.uuid4().hex)
    cached_store(options.store).put(f"{staged_prefix(transaction_id)}{name}", data)
    return StagedObject(name, records.topic, records.topic_id, len(data))
