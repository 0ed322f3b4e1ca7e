"""What Spark calls to write: ``df.writeStream.format("tidelog")`` and ``df.write.format("tidelog").mode("append")``."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_pipeline.sink.commit import commit_batch, delete_staged
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.stage import StagedTask, stage
from spark_pipeline.source.store_access import opened


class BatchWriter(DataSourceArrowWriter):
    """One job: its records appear together when it ends, or not at all. A job that is run again appends again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._job_id = f"job-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See ``stage``."""
        return stage(iterator, self._options, self._job_id)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """See ``commit_batch``."""
        commit_batch(_tasks(messages), self._options, self._job_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's
        """Delete what was staged."""
        delete_staged(opened(self._options.store), self._job_id)


class StreamWriter(DataSourceStreamArrowWriter):
    """Micro-batches of one query: each is in the topic once. Which query and batch it is executors learn from Spark."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """See ``stage``."""
        return stage(iterator, self._options, "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """See ``commit_batch``."""
        tasks = _tasks(messages)
        assert all(task is None or task.batch == batchId for task in tasks)
        commit_batch(tasks, self._options, "")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave what was staged: the batch comes again, and what is left then is deleted with it."""


def _tasks(messages: list[WriterCommitMessage | None]) -> list[StagedTask | None]:
    return [message if isinstance(message, StagedTask) else None for message in messages]
