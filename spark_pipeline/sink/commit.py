"""The driver's part: everything that is staged for a batch, in one commit for each topic, once.

The batch is the request of a producer whose epoch is the batch's number: the topic takes it at most once, and refuses one that
is older than what it has (a query that runs from an old checkpoint). Requests for one topic: one for each staged object, the
segment and the commit, a deletion for each object; for a stream one more, before the first commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from log_format.append import Append, Batch
from log_format.clock import SystemClock
from log_format.committer import Committer
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, TidelogError
from log_format.producers import ProducerStamp
from log_format.staged_records import decode_staged
from log_format.store import ObjectStore
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.queries import Query, known_query, new_producer_id, remember
from spark_pipeline.sink.stage import StagedObject, StagedTask, staged_prefix, topic_log
from spark_pipeline.source.store_access import opened

BATCH_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Staged bytes of one topic in one batch: the driver holds them in memory, and a commit is one segment."""

_ATTEMPTS_MAX: Final = 5
_PAUSE_MS: Final = 500


class BatchRefused(RuntimeError):
    """The batch can't be committed; the message says what to do."""


def commit_batch(tasks: Iterable[StagedTask | None], options: SinkOptions, job_id: str) -> None:
    """Commit what the tasks staged; a streaming query's batch that is in a topic already changes nothing there.

    When it returns the records are in the store and visible. Raises ``BatchRefused``, ``TidelogError``, ``StoreUnavailable``;
    then the batch may be repeated.
    """
    done = [task for task in tasks if task is not None]
    objects = [each for task in done for each in task.objects]
    if not objects:
        return
    store = opened(options.store)
    query_id, batch = done[0].query_id, done[0].batch
    by_topic: dict[str, list[StagedObject]] = {}
    for each in objects:
        by_topic.setdefault(each.topic, []).append(each)
    for topic, of_topic in by_topic.items():
        size_bytes = sum(each.size_bytes for each in of_topic)
        if size_bytes > BATCH_BYTES_MAX:
            raise BatchRefused(
                f"The batch has {size_bytes} bytes for topic {topic!r}; one commit takes {BATCH_BYTES_MAX}. Bound the stream's "
                "batches with maxOffsetsPerTrigger, or write in several jobs."
            )
    job = _Job(store, options.store, query_id, 0 if batch is None else batch)
    job.begin(by_topic)
    for topic in sorted(by_topic):
        job.commit(topic, by_topic[topic])
    delete_staged(store, job_id if query_id is None else f"{query_id}/{batch}")


def delete_staged(store: ObjectStore, job: str) -> None:
    """Delete all that is staged for a job, of failed and repeated tasks too. Raises ``StoreUnavailable``."""
    for info in list(store.list(staged_prefix(job))):
        store.delete(info.key)


class _Job:
    """One batch on its way into its topics. Without a query it is a producer of its own, that sends nothing else."""

    def __init__(self, store: ObjectStore, store_uri: str, query_id: str | None, batch: int) -> None:
        self._store = store
        self._store_uri = store_uri
        self._query_id = query_id
        self._batch = batch
        self._producers: dict[str, str] = {}
        self._is_first_try = True

    def begin(self, topics: Iterable[str]) -> None:
        """Write down that the batch is about to be committed, and by which producers."""
        known = None if self._query_id is None else known_query(self._store, self._query_id)
        if known is not None:
            self._producers = dict(known.producers)
            self._is_first_try = known.batch is None or self._batch > known.batch
        missing = [topic for topic in topics if topic not in self._producers]
        self._producers |= {topic: new_producer_id(self._store) for topic in missing}
        if self._is_first_try or missing:
            self._remember()

    def commit(self, topic: str, objects: Sequence[StagedObject]) -> None:
        """Append the objects' records, unless the topic has the batch."""
        staged = [decode_staged(self._store.get(each.key), each.key) for each in objects]
        records = pa.concat_tables([each.records for each in staged])
        partitions = np.concatenate([each.partitions for each in staged])
        committer = Committer(topic_log(self._store_uri, topic), new_id=_new_id, engine="tidelog-spark")
        for attempt in range(_ATTEMPTS_MAX):
            batch = Batch(
                topic_id=staged[0].topic_id,
                records=records,
                partitions=partitions,
                record_bytes_max=max(each.record_bytes_max for each in objects),
                stamp=ProducerStamp(self._producers[topic], self._batch, 0),
            )
            try:
                (outcome,) = committer.commit(Append([batch], _new_id)).result
            except (BackOff, OutcomeUnknown):
                if attempt == _ATTEMPTS_MAX - 1:
                    raise
                # Whatever became of it, the same request again is in the log once.
                SystemClock().sleep_ms(_PAUSE_MS * (attempt + 1))
                continue
            if not isinstance(outcome, TidelogError):
                return
            if outcome.code is not ErrorCode.UNKNOWN_PRODUCER:
                raise outcome
            self._be_another_producer(topic)
        raise BackOff(f"Topic {topic!r} took no commit.", topic=topic)

    def _be_another_producer(self, topic: str) -> None:
        if not self._is_first_try:
            raise BatchRefused(
                f"Topic {topic!r} has forgotten query {self._query_id}, so nobody can tell whether its batch {self._batch} is in "
                "it: look there, and go on from a new checkpoint."
            )
        self._producers[topic] = new_producer_id(self._store)
        self._remember()

    def _remember(self) -> None:
        if self._query_id is not None:
            remember(self._store, self._query_id, Query(producers=self._producers, batch=self._batch))


def _new_id() -> str:
    return uuid.uuid4().hex
