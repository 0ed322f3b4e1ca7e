"""Name of a batch, under which it is written once: the query and the batch's number, or the name given to a job.

It is a transactional id and the number of one of its transactions, on the store and through gateways alike. So a query that
writes the other way after a restart still knows what it has written.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from log_format.transactions.staged_records import topic_hash
from spark_pipeline.sink.options import SinkOptions


class BatchRefused(RuntimeError):
    """The batch can't be committed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class BatchName:
    """Name of a batch. ``number``: a query's numbers increase; a repeated batch keeps its number."""

    writer: str
    number: int

    @property
    def transactional_id(self) -> str:
        """Transactional id of the batch's transaction."""
        return f"spark-{self.writer}"


def stream_batch_name() -> BatchName | None:
    """Return the name of this task's micro-batch; None outside a query. Spark provides it on executors only."""
    context = TaskContext.get()
    if context is None:
        return None
    query_id, batch = (
        context.getLocalProperty("sql.streaming.queryId"),
        context.getLocalProperty("streaming.sql.batchId"),
    )
    return None if query_id is None or batch is None else BatchName(query_id, int(batch))


def job_batch_name(options: SinkOptions) -> BatchName | None:
    """Return the name given to a batch write; None: it appends at every run.

    Delta's name counts per table, so this one counts per topic when the option names the topic.
    """
    if options.app_id is None or options.version is None:
        return None
    where = "" if options.topic is None else f"/{topic_hash(options.topic)}"
    return BatchName(f"{options.app_id}{where}", options.version)


def superseded_error(name: BatchName, last_number: int) -> BatchRefused:
    """Return the refusal of a batch that is older than the last one written."""
    return BatchRefused(
        f"Batch {name.number} of {name.writer} is older than batch {last_number}, which was written already: this is an old copy "
        "of the query's checkpoint. Go on from the newest one, or from a new checkpoint."
    )
