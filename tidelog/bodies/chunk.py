"""Fetched records of one partition that were not handed out yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.types.record import Headers, Record, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_RECORDS: Final = 2_048
"""Rows of a table converted to records at a time: few enough for a fast first record, many enough to be cheap per record."""


class Chunk:
    """The ``records`` and then the rows of ``table``; reading continues at ``next_offset`` after them."""

    __slots__ = ("_cursor", "_next_offset", "_records", "_row", "_table", "place")

    def __init__(self, place: TopicPartition, records: list[Record], table: pa.Table | None, next_offset: int) -> None:
        self.place = place
        self._records = records
        self._table = table
        self._next_offset = next_offset
        self._cursor = 0
        """Index of the next record in ``_records``, which hold the rows just before ``_row``."""
        self._row = 0

    @property
    def position(self) -> int:
        """Offset of the next record, or where reading continues after the last."""
        if self._cursor < len(self._records):
            return self._records[self._cursor].offset
        if self._table is not None and self._row < self._table.num_rows:
            offset: int = self._table.column("offset")[self._row].as_py()
            return offset
        return self._next_offset

    @property
    def empty(self) -> bool:
        """Whether all records are handed out."""
        return self._cursor == len(self._records) and (self._table is None or self._row == self._table.num_rows)

    def take(self, records_max: int) -> list[Record]:
        """Return up to ``records_max`` records, in order; fewer at the end of a block, none only when the chunk is empty."""
        if self._cursor == len(self._records) and self._table is not None:
            block = self._table.slice(self._row, _BLOCK_RECORDS)
            self._records, self._cursor = records_from_table(self.place, block), 0
            self._row += block.num_rows
        taken = self._records[self._cursor : self._cursor + records_max]
        self._cursor += len(taken)
        return taken

    def put_back(self, count: int) -> None:
        """Hand out the last ``count`` records again that ``take`` just returned."""
        self._cursor -= count

    def take_table(self, bytes_max: int) -> pa.Table:
        """Return rows of up to about ``bytes_max`` bytes, at least one, with ``FETCHED_SCHEMA`` minus the topic."""
        if self._table is None:
            self._table = table_from_records(self._records[self._cursor :])
            self._row = 0
        else:
            self._row -= len(self._records) - self._cursor
        self._records, self._cursor = [], 0
        left = self._table.slice(self._row)
        rows: int = left.num_rows
        if left.nbytes > bytes_max:
            rows = max(1, rows * bytes_max // left.nbytes)
        self._row += rows
        return left.slice(0, rows)


def records_from_table(place: TopicPartition, table: pa.Table) -> list[Record]:
    """Return the rows of a table with a topic's columns and timestamps in milliseconds."""
    import pyarrow as pa  # noqa: PLC0415 - only needed with a table

    columns = [
        table.column("offset").to_pylist(),
        table.column("timestamp").cast(pa.int64()).to_pylist(),
        table.column("key").to_pylist(),
        table.column("value").to_pylist(),
    ]
    topic, partition = place.topic, place.partition
    headers = table.column("headers").combine_chunks()
    if len(headers.flatten()) == 0:
        return [Record(topic, partition, *row) for row in zip(*columns, strict=True)]
    return [
        Record(topic, partition, offset, timestamp_ms, key, value, _pairs(held))
        for offset, timestamp_ms, key, value, held in zip(*columns, headers.to_pylist(), strict=True)
    ]


def table_from_records(records: list[Record]) -> pa.Table:
    """Return the records as a table with the same columns."""
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.table(
        {
            "partition": pa.array([record.partition for record in records], pa.int32()),
            "offset": pa.array([record.offset for record in records], pa.int64()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.timestamp("ms", tz="UTC")),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(
                [[{"key": name, "value": value} for name, value in record.headers] for record in records],
                pa.list_(pa.field("element", header)),
            ),
        }
    )


def _pairs(held: list[dict[str, str | bytes | None]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in held or ())  # type: ignore[misc]
