"""Sending of lines and rows by the SDK's producer. Each one's file and line number is kept until its outcome is known.

Ctrl-C is deferred until the current lines are with the producer. Then no more lines are read, and the producer gets a few
seconds to deliver. The tally is complete: what is not in it was not acknowledged.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from log_format.errors import TidelogError
from tidelog.bodies.encode import Compression
from tidelog.cli.sources.lines import Lines, Place
from tidelog.cli.sources.places import name_places
from tidelog.cli.sources.rows import Rows
from tidelog.cli.sources.tally import Tally
from tidelog.cli.terminal.console import CommandFailed
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.errors import DeliveryFailed
from tidelog.producer.producer import Producer
from tidelog.types.record import ProduceResult, RecordMetadata

_GRACE_S: Final = 5.0
"""Seconds that records in flight get after Ctrl-C."""
_WAITING_MAX: Final = 64
"""Number of tables with the producer: together smaller than its buffer, where a further one would have to wait anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Destination of records, and the settings for sending them."""

    url: str | None
    token_file: Path | None
    partition: int | None
    headers: list[tuple[str, bytes]]
    compression: Compression | None
    timeout_ms: float
    deliver_after_s: float | None = None
    key: bytes | None = None
    """Key of every record without one."""


def send_lines(
    tally: Tally, groups: Iterable[Lines], destination: Destination, interrupts: Interrupts, *, separator: bytes | None
) -> None:
    """Send each line as a record; with ``separator``, the text before its first occurrence is the key.

    Raises the first record's error, ``CommandFailed`` for a line without a key, ``KeyboardInterrupt``. The tally is complete in
    any case.
    """
    waiting: deque[tuple[Future[RecordMetadata], Place]] = deque()
    together: list[Place] = []
    """Places of the lines that the first failed request had, in its order: they share its error."""

    def settle() -> None:
        while waiting and waiting[0][0].done():
            future, place = waiting.popleft()
            try:
                tally.store_one(future.result(), place)
            except TidelogError as error:
                tally.fail(error, place)
                if error is tally.first_error:
                    together.append(place)

    with _producer(destination, settle) as producer:
        for group in groups:
            with interrupts.held():
                for index, line in enumerate(group.lines):
                    place = group.place(index)
                    key, value = (destination.key, line) if separator is None else _keyed(line, separator, place)
                    future = producer.send(
                        tally.topic,
                        value,
                        key=key,
                        partition=destination.partition,
                        headers=destination.headers,
                        deliver_after=destination.deliver_after_s,
                    )
                    waiting.append((future, place))
                    if waiting[0][0].done():
                        settle()
                        if tally.first_error is not None:
                            break
            if tally.first_error is not None:
                break
    if tally.first_error is not None:
        tally.failed_at = name_places(tally.first_error, dict(enumerate(together)).get) or tally.failed_at
        raise tally.first_error


def send_rows(tally: Tally, rows: Iterable[Rows], destination: Destination, interrupts: Interrupts) -> None:
    """Send each table as one request. Raises as ``send_lines``."""
    waiting: deque[tuple[Future[ProduceResult], Rows]] = deque()

    def settle() -> None:
        while waiting and waiting[0][0].done():
            future, sent = waiting.popleft()
            try:
                result = future.result()
                tally.store(result, sent.place(len(sent.numbers) - 1))
            except TidelogError as error:
                failed = name_places(error, sent.place_or_none) or sent.place(0)
                tally.fail(error, failed, len(sent.numbers))

    with _producer(destination, settle) as producer:
        for each in rows:
            with interrupts.held():
                waiting.append((producer.send_table(tally.topic, _addressed(each, destination)), each))
                while len(waiting) > _WAITING_MAX:
                    waiting[0][0].exception()
                    settle()
            settle()
            if tally.first_error is not None:
                break
    if tally.first_error is not None:
        raise tally.first_error


class _producer(contextlib.AbstractContextManager[Producer]):  # noqa: N801 - used like a function
    """Context of a producer that is closed before the last call of ``settle``, even if the block raises."""

    def __init__(self, destination: Destination, settle: Any) -> None:
        self._producer = Producer(
            destination.url,
            token_file=destination.token_file,
            compression=destination.compression,
            delivery_timeout_ms=destination.timeout_ms,
        )
        self._settle = settle

    def __enter__(self) -> Producer:
        return self._producer

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        try:
            # Every error is in its record's future.
            with contextlib.suppress(DeliveryFailed):
                self._producer.close(_GRACE_S if interrupted else None)
        except KeyboardInterrupt:
            with contextlib.suppress(DeliveryFailed):
                self._producer.close(0)
            raise
        finally:
            self._settle()


def _keyed(line: bytes, separator: bytes, place: Place) -> tuple[bytes, bytes]:
    key, found, value = line.partition(separator)
    if not found:
        raise CommandFailed(f"{place} has no key: the separator {separator.decode()!r} is missing")
    return key, value


def _addressed(rows: Rows, destination: Destination) -> Any:
    """Return the table with the partition, key, headers and delay that all records get."""
    import pyarrow as pa  # noqa: PLC0415 - there is a table, so it is there

    table = rows.table
    if destination.partition is not None:
        if "partition" in table.column_names:
            table = table.drop_columns("partition")
        table = table.append_column(
            "partition", pa.repeat(pa.scalar(destination.partition, pa.int32()), table.num_rows)
        )
    if destination.key is not None:
        table = _with_key(table, destination.key)
    if destination.headers:
        if "headers" in table.column_names:
            table = table.drop_columns("headers")
        pair = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        headers = pa.scalar([{"key": name, "value": value} for name, value in destination.headers], pa.list_(pair))
        table = table.append_column("headers", pa.repeat(headers, table.num_rows))
    if destination.deliver_after_s is not None:
        duration = pa.scalar(round(destination.deliver_after_s * 1000), pa.int64())
        table = table.append_column("deliver_after_ms", pa.repeat(duration, table.num_rows))
    return table


def _with_key(table: Any, key: bytes) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - there is a table, so it is there
    import pyarrow.compute as pc  # noqa: PLC0415

    if "key" not in table.column_names:
        return table.append_column("key", pa.repeat(pa.scalar(key, pa.binary()), table.num_rows))
    index = table.column_names.index("key")
    column = table.column(index)
    return table.set_column(index, "key", pc.fill_null(column, pa.scalar(key, pa.binary()).cast(column.type)))
