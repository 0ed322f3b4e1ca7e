"""Writers that Spark calls: ``df.writeStream.format("tidelog")`` and ``df.write.format("tidelog").mode("append")``.

Both stage on executors and commit on the driver, straight to the store or through gateways, each batch as one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spark_pipeline.sink.batch_name import BatchName, job_batch_name, stream_batch_name
from spark_pipeline.sink.carry import CarriedTask, carry
from spark_pipeline.sink.commit import commit_staged, drop_staged
from spark_pipeline.sink.options import SinkOptions
from spark_pipeline.sink.stage import Attempt, StagedTask, make_transaction_id, new_attempt, stage

Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Writer of one job, whose records appear together at its end, or not at all.

    A repeated job appends again, unless ``txnAppId`` and ``txnVersion`` name it.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._attempt = new_attempt()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows, as ``stage`` or ``carry``."""
        return _write(iterator, self._options, self._attempt, job_batch_name(self._options))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the job, as ``commit_staged`` or ``commit_carried``."""
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's
        """Delete all staged objects, including those of failed tasks."""
        if not self._options.gateways:
            drop_staged(make_transaction_id(self._attempt, job_batch_name(self._options), self._options), self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writer of one query's micro-batches, each written once. Executors learn query and batch from Spark."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._attempt = new_attempt()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows, as ``stage`` or ``carry``."""
        batch = stream_batch_name()
        assert batch is not None, "Spark does not say which micro-batch this is"
        return _write(iterator, self._options, self._attempt, batch)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the micro-batch, as ``commit_staged`` or ``commit_carried``."""
        assert all(
            message.batch is not None and message.batch.number == batchId
            for message in messages
            if isinstance(message, StagedTask | CarriedTask)
        )
        _commit(messages, self._options)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Delete the objects that tasks reported as staged: a repeated batch stages again."""
        for transaction_id in {message.transaction_id for message in messages if isinstance(message, StagedTask)}:
            drop_staged(transaction_id, self._options)


def _write(
    rows: Iterator[pa.RecordBatch], options: SinkOptions, attempt: Attempt, batch: BatchName | None
) -> WriterCommitMessage:
    return carry(rows, options, batch) if options.gateways else stage(rows, options, attempt, batch)


def _commit(messages: Messages, options: SinkOptions) -> None:
    if options.gateways:
        # Imported late: executors import this module, too, and need no HTTP client.
        from spark_pipeline.sink.commit_by_gateway import commit_carried  # noqa: PLC0415

        commit_carried([message for message in messages if isinstance(message, CarriedTask)], options)
    else:
        commit_staged([message for message in messages if isinstance(message, StagedTask)], options)
