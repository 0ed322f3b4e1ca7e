"""Parquet files as rows, read a batch at a time.

A file holds records if it has a binary column ``value`` and otherwise only columns of records. ``tidelog consume --output`` and
Spark's Kafka source write such files. Their records are sent unchanged, each to the partition that it names. Rows of any other
file become JSON objects. Parquet files have their directory at the end, so they can't come from a pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tidelog.bodies.table_chunk import cut
from tidelog.cli.sources.lines import STANDARD_STREAM
from tidelog.cli.sources.rows import (
    ROWS_BYTES_MAX,
    ROWS_MAX,
    Fields,
    Row,
    Rows,
    as_bytes,
    require_arrow,
    rows_of,
)
from tidelog.cli.terminal.console import CommandFailed
from tidelog.unpacking import compression_of

if TYPE_CHECKING:
    import pyarrow as pa

_RECORD_COLUMNS = frozenset({"topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"})


def read_parquet(paths: Iterable[Path], fields: Fields) -> Iterator[Rows]:
    """Yield the rows of the files, one file after another.

    Raises ``CommandFailed`` for a file that is no Parquet or lacks one of ``fields``.
    """
    require_arrow("--format parquet")
    import pyarrow as pa  # noqa: PLC0415 - the other formats work without it
    import pyarrow.parquet as pq  # noqa: PLC0415 - the same

    for path in paths:
        if path == STANDARD_STREAM:
            raise CommandFailed("a Parquet file can't be read from standard input: give its name")
        if compression_of(str(path)) is not None:
            raise CommandFailed(f"{path}: a compressed Parquet file can't be read: decompress it first")
        try:
            with pq.ParquetFile(path) as file:
                yield from _file(path, file, fields)
        except pa.ArrowException as error:
            raise CommandFailed(f"{path}: {error}") from None


def row_count(paths: Iterable[Path]) -> int | None:
    """Return the number of rows of Parquet files by their footers; None if one can't be read, which ``read_parquet`` tells."""
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415 - the other formats work without it

        return sum(int(pq.read_metadata(path).num_rows) for path in paths)
    except (ImportError, OSError, ValueError):
        return None


def _file(path: Path, file: Any, fields: Fields) -> Iterator[Rows]:
    import pyarrow as pa  # noqa: PLC0415 - the other formats work without it

    schema = file.schema_arrow
    for name in fields.named():
        if name not in schema.names:
            raise CommandFailed(f"{path}: there is no column {name!r}; it has {', '.join(schema.names)}")
    as_they_are = not fields.named() and _holds_records(schema)
    first = 1
    for batch in file.iter_batches(ROWS_MAX):
        if as_they_are:
            for part in cut(pa.table(batch), ROWS_BYTES_MAX):
                yield Rows(path=path, unit="row", numbers=range(first, first + part.num_rows), table=part)
                first += part.num_rows
        else:
            columns = [column.to_pylist() for column in batch.columns]
            found = (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))
            yield from rows_of(path, "row", enumerate(found, first), lambda row: _row(row, fields))
            first += batch.num_rows


def _holds_records(schema: pa.Schema) -> bool:
    from pyarrow import types  # noqa: PLC0415 - the other formats work without it

    if "value" not in schema.names or not _RECORD_COLUMNS.issuperset(schema.names):
        return False
    type_ = schema.field("value").type
    return bool(types.is_binary(type_) or types.is_large_binary(type_))


def _row(found: dict[str, Any], fields: Fields) -> Row:
    value = msgspec.json.encode(found) if fields.value is None else as_bytes(found[fields.value])
    key = None if fields.key is None else as_bytes(found[fields.key])
    timestamp = None if fields.timestamp is None else found[fields.timestamp]
    if isinstance(timestamp, datetime):
        zoned = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
        timestamp = zoned.isoformat()
    return value, key, fields.times.of(timestamp)
