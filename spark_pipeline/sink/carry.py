"""A task of a write through gateways: it hands its records to the driver, which sends all of them in one transaction.

Executors can't stage at a gateway themselves: a gateway's transaction includes everything staged in it, also by failed or
repeated task attempts, and only the driver learns from Spark which attempts count. A transaction has at most 64 MiB, so the
driver can hold it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from log_format import limits
from log_format.clock import SystemClock
from spark_pipeline.sink.batch_name import BatchName, BatchRefused
from spark_pipeline.sink.columns import given_values, split_by_topic, to_records
from spark_pipeline.sink.options import SinkOptions


@dataclass(frozen=True, slots=True)
class CarriedRecords:
    """A task's records for one topic, as an Arrow IPC stream in the gateways' form."""

    topic: str
    stream: bytes


@dataclass(frozen=True)
class CarriedTask(WriterCommitMessage):
    """Message of a task to the driver."""

    parts: tuple[CarriedRecords, ...]
    batch: BatchName | None


def carry(rows: Iterable[pa.RecordBatch], options: SinkOptions, batch: BatchName | None) -> CarriedTask:
    """Return the rows for the driver. Raises ``OptionRefused``, and ``BatchRefused`` when they exceed a transaction."""
    tables: dict[str, list[pa.Table]] = {}
    size_bytes = 0
    for each in rows:
        for topic, of_topic in split_by_topic(each, options.topic):
            if not of_topic.num_rows:
                continue
            records = _with_partition(to_records(of_topic, SystemClock().now_ms()), of_topic)
            given = given_values(of_topic)
            if given is not None:  # the gateway judges them, and makes documents of them
                at = records.schema.get_field_index("value")
                records = records.set_column(at, pa.field("data", given.type), given)
            size_bytes += records.nbytes
            check_size(size_bytes)
            tables.setdefault(topic, []).append(records)
    parts = [CarriedRecords(topic, encode_stream(pa.concat_tables(parts))) for topic, parts in tables.items()]
    return CarriedTask(tuple(parts), batch)


def check_size(size_bytes: int) -> None:
    """Raise ``BatchRefused`` if a gateway's transaction can't hold so much."""
    if size_bytes > limits.TRANSACTION_BYTES_MAX:
        raise BatchRefused(
            f"The batch has more than {limits.TRANSACTION_BYTES_MAX} bytes, which is what a transaction through gateways takes. "
            "Bound the stream's batches with maxOffsetsPerTrigger, or write to the store (option store)."
        )


def encode_stream(records: pa.Table) -> bytes:
    """Return the records as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_table(records)
    return bytes(sink.getvalue().to_pybytes())


def decode_stream(data: bytes) -> pa.Table:
    """Return the records of a stream made by ``encode_stream``."""
    return pa.ipc.open_stream(pa.BufferReader(data)).read_all()


def _with_partition(records: pa.Table, rows: pa.RecordBatch) -> pa.Table:
    """Return the records with the partition that each row names; null: the gateway chooses."""
    partitions = rows.column("partition") if "partition" in rows.schema.names else pa.nulls(rows.num_rows, pa.int32())
    return records.append_column("partition", partitions.cast(pa.int32()))
