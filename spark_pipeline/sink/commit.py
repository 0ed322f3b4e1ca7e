"""The driver's part of a write to the store: it commits everything staged for a batch, over all topics, in one transaction.

1. The decision names the batch and exactly the objects of the tasks that Spark counts. Before it nothing is in a topic, after
   it all of it will be. A batch that any process decided before is not decided again.
2. The driver finishes the transaction. If it dies first, another process does: the restarted query, any gateway, or
   maintenance.

Requests: two PUTs each for the decision and the end; for each topic a look at its log, the segment and the commit; for each
staged object a GET and a DELETE. Their number does not grow with what was written before.
"""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Sequence
from typing import Final

from log_format import limits
from log_format.clock import SystemClock
from log_format.errors import StoreError, TidelogError
from log_format.topic.producer_id import TRANSACTIONAL, issue
from log_format.transactions.changes import NotFinished
from log_format.transactions.job import CommitJob, NumberCommitted, NumberPassed
from log_format.transactions.row import NO_NUMBER, TransactionRow
from log_format.transactions.transaction_finisher import TransactionFinisher
from spark_pipeline.sink.batch_name import BatchName, BatchRefused, superseded_error
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.stage import StagedObject, StagedTask, commits_pool, producer_key, schema_readers, topic_log
from spark_pipeline.store_access import cached_store

_log = logging.getLogger("spark_pipeline.sink")

_STORES_MAX: Final = 16


def commit_staged(tasks: Sequence[StagedTask], options: SinkOptions) -> None:
    """Commit what the tasks staged; a named batch that was committed already changes nothing.

    On return the records are in the store and visible. After ``BatchRefused``, ``TidelogError`` or ``StoreError`` the batch may
    be repeated, whatever its outcome.
    """
    objects = [each for task in tasks for each in task.objects]
    if not objects:
        return
    transaction_id, batch = tasks[0].transaction_id, tasks[0].batch
    assert all(task.transaction_id == transaction_id and task.batch == batch for task in tasks)
    transactions = open_transactions(options.store)
    _check_size(objects)
    for topic, topic_id in sorted({(each.topic, each.topic_id) for each in objects}):
        if topic_log(options.store, topic).refresh().topic_id != topic_id:
            raise BatchRefused(
                f"Topic {topic!r} was deleted while records for it were on their way: run the batch again."
            )
    try:
        row = _decide(transactions, transaction_id, batch, [each.name for each in objects], options)
    except NumberCommitted:
        transactions.delete_staged(transaction_id)
        return
    except NumberPassed as refusal:
        assert batch is not None
        transactions.delete_staged(transaction_id)
        raise superseded_error(batch, refusal.last_number) from refusal
    transactions.finish(row)
    try:
        transactions.keep_small()
    except (TidelogError, StoreError) as problem:
        _log.warning("the table of transactions is left as large as it is: %s", problem)


def drop_staged(transaction_id: str, options: SinkOptions) -> None:
    """Delete the staged objects of a failed attempt."""
    open_transactions(options.store).delete_staged(transaction_id)


@functools.lru_cache(maxsize=_STORES_MAX)
def open_transactions(store: str) -> TransactionFinisher:
    """Return the store's transactions with the means to finish them; cached as long as the process lives."""
    return TransactionFinisher(
        cached_store(store),
        SystemClock(),
        new_id=_new_id,
        log_of=lambda topic: topic_log(store, topic),
        engine="tidelog-spark",
        fetch_all=commits_pool().map,
        type_records=schema_readers(store).type_records,
    )


def _decide(
    transactions: TransactionFinisher,
    transaction_id: str,
    batch: BatchName | None,
    names: Sequence[str],
    options: SinkOptions,
) -> TransactionRow:
    """Commit the transaction, after the previous batch is finished if need be, and return its row."""
    decision = CommitJob(
        transaction_id=transaction_id,
        staged=tuple(names),
        new_producer_id=issue(TRANSACTIONAL, SystemClock().now_ms(), _new_id(), producer_key(options.store)),
        transactional_id="" if batch is None else batch.transactional_id,
        number=NO_NUMBER if batch is None else batch.number,
    )
    try:
        return transactions.decide(decision)
    except NotFinished as earlier:
        transactions.finish(earlier.row)
        return transactions.decide(decision)


def _check_size(objects: Sequence[StagedObject]) -> None:
    """Raise ``BatchRefused`` if the staged data exceeds what one commit takes."""
    sizes: dict[str, int] = {}
    for each in objects:
        sizes[each.topic] = sizes.get(each.topic, 0) + each.size_bytes
    for topic, size_bytes in sizes.items():
        if size_bytes > limits.JOB_TOPIC_BYTES_MAX:
            raise BatchRefused(
                f"The batch has {size_bytes} bytes for topic {topic!r}; one commit takes {limits.JOB_TOPIC_BYTES_MAX}. Bound the "
                "stream's batches with maxOffsetsPerTrigger, or write in several jobs."
            )
    if len(objects) > limits.JOB_OBJECTS_MAX:
        raise BatchRefused(
            f"The batch has {len(objects)} parts, one for each task and topic; a commit takes {limits.JOB_OBJECTS_MAX}. Write it "
            "from fewer partitions (coalesce)."
        )


def _new_id() -> str:
    return uuid.uuid4().hex
