"""An Arrow table being sent: cut into requests, sent in order, with one common result."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from log_format.errors import TidelogError
from tidelog.arguments import require_pyarrow
from tidelog.deadline import Deadline
from tidelog.types.record import DeadLetter, PartitionRange, ProduceResult, ScheduledPlace

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowStream(Protocol):
    """Object with the Arrow PyCapsule interface: tables of pyarrow, polars, pandas, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule of an ``ArrowArrayStream``."""


def as_table(given: ArrowStream) -> pa.Table:
    """Return the rows as a pyarrow table, copied only if the other library requires it. Raises ``TypeError``."""
    require_pyarrow("send_table")
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    if isinstance(given, pa.Table):
        return given
    if not hasattr(given, "__arrow_c_stream__"):
        raise TypeError(f"{type(given).__name__} is not a table: it has no Arrow interface (__arrow_c_stream__)")
    table: pa.Table = pa.table(given)
    # pandas' unnamed index, present unless it is simply 0, 1, 2, …, is no part of a record.
    return table.drop_columns([name for name in table.column_names if name.startswith("__index_level_")])


def with_data(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the table with the columns of these names as members of a column ``data``. Raises ``ValueError`` for a name that no
    column has."""
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    missing = [name for name in names if name not in table.column_names]
    if missing or not names:
        raise ValueError(f"the table has no column {missing[0]!r}" if missing else "data names no column")
    columns = [table.column(name) for name in names]
    plain = [one.cast(one.type.value_type) if pa.types.is_dictionary(one.type) else one for one in columns]
    members = pa.table(plain, names=list(names)).to_struct_array()
    return table.drop_columns(list(names)).append_column("data", members)


class TableDelivery:
    """Delivery state of a table. Its future is finished by the last chunk, or by the first that fails. Thread-safe."""

    def __init__(self, topic: str, row_count: int) -> None:
        self.topic = topic
        self.row_count = row_count
        self.future: Future[ProduceResult] = Future()
        self.future.set_running_or_notify_cancel()
        self._lock = threading.Lock()
        self._ended = False
        self._stored: list[PartitionRange] = []
        self._scheduled: list[ScheduledPlace] = []
        self._letters: list[DeadLetter] = []
        self._stored_count = 0

    @property
    def failed(self) -> bool:
        """Whether the delivery has ended: after a failed chunk, later ones are not sent."""
        return self._ended

    def stored(self, result: ProduceResult) -> None:
        """Record that a chunk was acknowledged."""
        with self._lock:
            self._stored.extend(result.partitions)
            self._scheduled.extend(result.scheduled)
            self._letters.extend(result.dead_letters)
            self._stored_count += result.count + len(result.dead_letters)
            if self._ended or self._stored_count < self.row_count:
                return
            self._ended = True
        places = tuple(self._stored), tuple(self._scheduled), tuple(self._letters)
        self.future.set_result(ProduceResult(self.topic, *places))

    def fail(self, error: TidelogError) -> int:
        """Record that a chunk failed, and return the number of lost rows: its own and those behind it."""
        with self._lock:
            if self._ended:
                return 0
            self._ended = True
            lost = self.row_count - self._stored_count
        if lost < self.row_count:
            error.add_note(f"The first {self.row_count - lost} of {self.row_count} rows are stored.")
        self.future.set_exception(error)
        return lost


class TableChunk:
    """Rows of a table that are sent as one request."""

    __slots__ = ("deadline", "delivery", "number", "opened_at", "partitions", "size_bytes", "table")

    def __init__(self, delivery: TableDelivery, table: pa.Table, deadline: Deadline) -> None:
        self.delivery = delivery
        self.table = table
        self.deadline = deadline
        self.size_bytes: int = table.nbytes
        self.number = 0
        self.opened_at = 0.0
        self.partitions: list[int] = []
        """Partition of each row, if the client chose them, as it does in a transaction."""

    @property
    def topic(self) -> str:
        """Topic to which the rows are sent."""
        return self.delivery.topic


def cut(table: pa.Table, bytes_max: int) -> Iterator[pa.Table]:
    """Yield the table in slices of about ``bytes_max`` bytes, each with at least one row."""
    row_count: int = table.num_rows
    chunk_count = max(1, -(-table.nbytes // bytes_max))
    rows = max(1, -(-row_count // chunk_count))
    for start in range(0, row_count, rows):
        yield table.slice(start, rows)
