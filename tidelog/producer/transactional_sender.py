"""Sending within transactions: requests stage records, and the commit's answer says where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from log_format.errors import ErrorCode, TidelogError
from tidelog.bodies.encode import Compression
from tidelog.bodies.record_columns import ANY_PARTITION, RecordColumns
from tidelog.bodies.table_chunk import TableChunk
from tidelog.calls.produce import stage
from tidelog.calls.producers import ProducerIdentity, Stamp
from tidelog.deadline import Deadline
from tidelog.errors import GatewayError, TransactionAborted
from tidelog.http.transport import Transport
from tidelog.producer.delivery import Outcome, RecordBatch
from tidelog.producer.numbering import SequenceNumbering
from tidelog.producer.sender import Sender
from tidelog.producer.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa


class TransactionalSender(Sender):
    """A ``Sender`` whose requests belong to the transaction given to ``begin``. Thread-safe."""

    def __init__(self, transport: Transport, *, compression: Compression | None) -> None:
        self._numbers = SequenceNumbering(self._issue, renews=False)
        super().__init__(transport, compression=compression, numbering=self._numbers)
        self._transaction: Transaction | None = None

    def begin(self, transaction: Transaction) -> None:
        """Send within this transaction from now on. Nothing may be in flight."""
        self._numbers.start_over()
        self._transaction = transaction

    def fail(self, error: TidelogError) -> None:
        """Record that something sent is missing in the transaction."""
        if not isinstance(error, TransactionAborted):  # a consequence of another error
            self._current().fail(error)

    def deliver(self, batch: RecordBatch) -> list[Outcome] | None:
        """Stage the batch and return None: the transaction holds it. If a request failed, return the outcomes, all errors."""
        transaction = self._current()
        transaction.check_committable()
        outcomes = super().deliver(batch)
        assert outcomes is not None
        if isinstance(transaction.failure, TransactionAborted):  # aborted while this batch was in flight
            return [transaction.failure] * len(outcomes)
        failure = next((outcome for outcome in outcomes if isinstance(outcome, TidelogError)), None)
        if transaction.failure is not None and failure is not None and failure.code is ErrorCode.SEQUENCE_OUT_OF_ORDER:
            # The request was refused only because an earlier one was, whose error says why.
            return [transaction.not_sent()] * len(outcomes)
        if failure is None:
            transaction.hold(batch)
            return None
        aborted = TransactionAborted("Another record of the same batch failed, so the transaction is aborted.")
        aborted.__cause__ = failure
        return [aborted if isinstance(outcome, int) else outcome for outcome in outcomes]

    def deliver_chunk(self, chunk: TableChunk) -> None:
        """Stage the chunk, which the transaction then holds. Every row gets its partition here."""
        transaction = self._current()
        transaction.check_committable()
        facts = self._facts.get(chunk.topic, chunk.deadline)
        chunk.table, chunk.partitions = _with_partitions(
            chunk.table, facts.partition_count, next(self._round_robin) % facts.partition_count
        )
        try:
            super().deliver_chunk(chunk)
        except TidelogError:
            if isinstance(transaction.failure, TransactionAborted):
                raise transaction.failure from None
            raise
        transaction.hold(chunk)

    def _request(
        self, batch: RecordBatch | TableChunk, record_count: int, body: bytes, content_type: str, *, is_last: bool
    ) -> None:
        """Stage the records. They get their places at the commit."""
        transaction_id = self._current().transaction_id

        def post(stamp: Stamp, is_final: Callable[[GatewayError], bool]) -> int:
            return stage(
                self._transport,
                batch.topic,
                body,
                content_type,
                record_count=record_count,
                deadline=batch.deadline,
                transaction_id=transaction_id,
                stamp=stamp,
                compression=self._compression,
                is_final=is_final,
            )

        partition_count = self._numbers.send(batch.topic, batch.number, batch.deadline, post, is_last=is_last)
        self._facts.learn(batch.topic, partition_count)

    def _issue(self, topic: str, _deadline: Deadline) -> ProducerIdentity:
        return self._current().issue(topic)

    def _current(self) -> Transaction:
        assert self._transaction is not None
        return self._transaction


def _with_partitions(table: pa.Table, partition_count: int, keyless_partition: int) -> tuple[pa.Table, list[int]]:
    """Return the table with a partition in every row, and the partitions.

    A table with bad columns is returned unchanged: the gateway refuses it.
    """
    import pyarrow as pa  # noqa: PLC0415 - only needed with a table

    keys = table.column("key").to_pylist() if "key" in table.column_names else [None] * table.num_rows
    given = table.column("partition").to_pylist() if "partition" in table.column_names else [None] * table.num_rows
    if not all(key is None or isinstance(key, bytes | str) for key in keys):
        return table, []
    if not all(partition is None or isinstance(partition, int) for partition in given):
        return table, []
    columns = RecordColumns(
        keys=[key.encode() if isinstance(key, str) else key for key in keys],
        values=[None] * len(keys),
        named=[ANY_PARTITION if partition is None else partition for partition in given],
    )
    columns.assign(partition_count, keyless_partition)
    if "partition" in table.column_names:
        table = table.drop_columns(["partition"])
    return table.append_column("partition", pa.array(columns.assigned, pa.int64())), columns.assigned
