"""Sinks of consumed records: a stream of bytes, or a Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tidelog.bodies.encode import arrow_available
from tidelog.cli.sinks.output_file import OutputFile
from tidelog.cli.sinks.record_text import Writer
from tidelog.cli.terminal.console import CommandFailed
from tidelog.consumer.consumer import Consumer
from tidelog.types.record import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet

_BATCH_RECORDS = 5_000
_TABLE_BYTES = 8 * 1024 * 1024
_ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Bytes of records buffered for a row group: small enough for any machine, large enough for fast readers."""


class Sink(Protocol):
    """Output of ``copy``."""

    def fetch(self, consumer: Consumer, wait_ms: float, records_max: int | None) -> int:
        """Fetch the next records from the consumer, and return their number."""

    def write(self, ends: Mapping[TopicPartition, int] | None) -> dict[TopicPartition, tuple[int, int]]:
        """Write fetched records below ``ends``; return their number and the offset behind the last, by partition."""

    def close(self) -> None:
        """Make the output durable."""

    def discard(self) -> None:
        """Remove partial output after a failure."""


class StreamSink:
    """Sink that writes each record by ``writer``, to standard output or a file."""

    def __init__(self, writer: Writer, file: OutputFile | None = None) -> None:
        self._writer = writer
        self._file = file
        self._out = sys.stdout.buffer if file is None else file.file
        self._records: list[tuple[TopicPartition, int, bytes]] = []

    def fetch(self, consumer: Consumer, wait_ms: float, records_max: int | None) -> int:
        """Fetch a batch."""
        limit = _BATCH_RECORDS if records_max is None else min(_BATCH_RECORDS, records_max)
        records = consumer.poll(timeout_ms=wait_ms, max_records=limit)
        self._records = [
            (TopicPartition(each.topic, each.partition), each.offset, self._writer(each)) for each in records
        ]
        return len(records)

    def write(self, ends: Mapping[TopicPartition, int] | None) -> dict[TopicPartition, tuple[int, int]]:
        """Write all fetched records, and flush."""
        wanted = [each for each in self._records if ends is None or each[1] < ends[each[0]]]
        self._out.writelines(data for _, _, data in wanted)
        self._out.flush()
        written: dict[TopicPartition, tuple[int, int]] = {}
        for place, offset, _ in wanted:
            written[place] = (written.get(place, (0, 0))[0] + 1, offset + 1)
        return written

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()

    def discard(self) -> None:
        """Discard the file, if there is one."""
        if self._file is not None:
            self._file.discard()


class ParquetSink:
    """Sink that writes a Parquet file with the columns of ``Consumer.poll_arrow``; a row group bounds the memory."""

    def __init__(self, path: Path) -> None:
        if not arrow_available():
            raise CommandFailed("Parquet needs pyarrow: pip install 'tidelog[arrow]'")
        import pyarrow.parquet as pq  # noqa: PLC0415 - only for Parquet

        from tidelog.bodies.fetched_table import FETCHED_SCHEMA  # noqa: PLC0415 - needs pyarrow

        self._file = OutputFile(path, append=False, may_grow=False)
        self._parquet: pyarrow.parquet.ParquetWriter = pq.ParquetWriter(
            self._file.file, FETCHED_SCHEMA, compression="zstd"
        )
        self._fetched: pa.Table = FETCHED_SCHEMA.empty_table()
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._records_max: int | None = None

    def fetch(self, consumer: Consumer, wait_ms: float, records_max: int | None) -> int:
        """Fetch the largest available table."""
        self._fetched = consumer.poll_arrow(timeout_ms=wait_ms, max_bytes=_TABLE_BYTES)
        self._records_max = records_max
        return int(self._fetched.num_rows)

    def write(self, ends: Mapping[TopicPartition, int] | None) -> dict[TopicPartition, tuple[int, int]]:
        """Buffer the rows, and write them once they fill a row group."""
        import pyarrow.compute as pc  # noqa: PLC0415 - only for Parquet

        table = self._fetched
        if ends is not None:
            below = [
                pc.and_(pc.equal(table.column("partition"), place.partition), pc.less(table.column("offset"), end))
                for place, end in ends.items()
                if place.partition in set(pc.unique(table.column("partition")).to_pylist())
            ]
            mask = below[0] if below else None
            for each in below[1:]:
                mask = pc.or_(mask, each)
            table = table.filter(mask) if mask is not None else table.slice(0, 0)
        if self._records_max is not None:
            table = table.slice(0, self._records_max)
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._flush()
        found = table.group_by(["topic", "partition"]).aggregate([("offset", "max"), ("offset", "count")])
        return {
            TopicPartition(row["topic"], row["partition"]): (row["offset_count"], row["offset_max"] + 1)
            for row in found.to_pylist()
        }

    def close(self) -> None:
        """Write the rest and the footer, and close the file."""
        self._flush()
        self._parquet.close()
        self._file.close()

    def discard(self) -> None:
        """Discard the file."""
        self._parquet.close()
        self._file.discard()

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - only for Parquet

        if self._waiting_bytes:
            self._parquet.write_table(pa.concat_tables(self._waiting))
        self._waiting, self._waiting_bytes = [], 0
