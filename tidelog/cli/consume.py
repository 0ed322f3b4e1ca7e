"""``tidelog consume``: a topic onto standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, BinaryIO

import msgspec
import typer
from rich.progress import Progress

from tidelog.admin import Admin
from tidelog.cli.console import STREAM_TIMEOUT_S, TimeoutOption, UrlOption, progress, reporting
from tidelog.consumer import Consumer
from tidelog.json_record import as_json_record
from tidelog.record import Record, TopicPartition
from tidelog.topic import PartitionOffsets

_BATCH_RECORDS = 5_000
_FOLLOW_WAIT_MS = 10_000


class OutputFormat(StrEnum):
    """What is written for a record."""

    TEXT = "text"
    JSON = "json"
    RAW = "raw"


Writer = Callable[[Record], bytes]


def consume(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    *,
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="beginning, end, an offset, a time (2025-01-31T08:00:00Z), or @ and milliseconds since the epoch.",
        ),
    ] = "beginning",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this one; may be given many times.")
    ] = None,
    max_: Annotated[int | None, typer.Option("--max", "-n", min=1, help="End after so many records.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as records come, until Ctrl-C. Else: up to what is there now.")
    ] = False,
    format_: Annotated[
        OutputFormat,
        typer.Option(
            "--format",
            "-f",
            help="text: the value, what is no UTF-8 escaped. json: the HTTP API's record, a line each. raw: its bytes.",
        ),
    ] = OutputFormat.TEXT,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="text and raw: write the key and this before the value.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    url: UrlOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
) -> None:
    """Write the records of a topic to standard output, a line each.

    Records of one partition come in the order of their offsets. A null value is an empty line in text and raw.

    \b
    Examples:
      tidelog consume orders
      tidelog consume orders --from end --follow
      tidelog consume orders --from 2025-01-31T08:00:00Z --partition 3 --max 10 --json
      tidelog consume orders --format raw --key-separator : > backup.txt
    """
    chosen = OutputFormat.JSON if as_json else format_
    api_timeout_ms = timeout * 1000
    with (
        reporting(as_json=chosen is OutputFormat.JSON),
        Consumer(bootstrap_servers=url, auto_offset_reset="none", api_timeout_ms=api_timeout_ms) as consumer,
        Admin(url, timeout_ms=api_timeout_ms) as admin,
    ):
        if chosen is OutputFormat.JSON and key_separator is not None:
            raise ValueError("--key-separator is for text and raw: JSON has a member for the key")
        positions, ends = _range(admin, topic, from_, partition)
        write = _writer(chosen, key_separator)
        # On one terminal a progress bar and records would write over each other.
        with progress(f"from {topic}", shown=not sys.stdout.isatty()) as bar:
            _copy(consumer, positions, ends=None if follow else ends, records_max=max_, write=write, bar=bar)


def _range(
    admin: Admin, topic: str, where: str, partitions: list[int] | None
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to begin in each partition, and where its log ends now."""
    timestamp_ms = _timestamp_ms(where)
    offsets = admin.offsets(topic, sorted(set(partitions)) if partitions else None, timestamp_ms=timestamp_ms)
    begin = {TopicPartition(topic, each): _begin(found, where, timestamp_ms) for each, found in offsets.items()}
    return begin, {TopicPartition(topic, each): found.high_watermark for each, found in offsets.items()}


def _begin(found: PartitionOffsets, where: str, timestamp_ms: int | None) -> int:
    if timestamp_ms is not None:
        return found.high_watermark if found.offset is None else found.offset
    if where == "beginning":
        return found.log_start_offset
    return found.high_watermark if where == "end" else int(where)


def _timestamp_ms(where: str) -> int | None:
    """The time that ``--from`` names; None when it names something else. Raises ``ValueError`` when it names nothing."""
    if where in {"beginning", "end"} or where.isdecimal():
        return None
    if where.startswith("@") and where[1:].isdecimal():
        return int(where[1:])
    try:
        time = datetime.fromisoformat(where)
    except ValueError:
        raise ValueError(f"--from {where!r} is not beginning, end, an offset, a time or @milliseconds") from None
    return int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _copy(
    consumer: Consumer,
    positions: dict[TopicPartition, int],
    *,
    ends: dict[TopicPartition, int] | None,
    records_max: int | None,
    write: Writer,
    bar: Progress,
) -> None:
    """Write records until ``ends`` are reached (None: never) or ``records_max`` are written."""
    left = {place for place in positions if ends is None or positions[place] != ends[place]}
    consumer.assign(positions)
    for place, position in positions.items():
        consumer.seek(place, position)
    consumer.pause(*(place for place in positions if place not in left))
    out: BinaryIO = sys.stdout.buffer
    task = bar.add_task("records", total=None)
    written = 0
    while left and (records_max is None or written < records_max):
        batch_max = _BATCH_RECORDS if records_max is None else min(_BATCH_RECORDS, records_max - written)
        records = consumer.poll(_FOLLOW_WAIT_MS, batch_max)
        if ends is not None:
            records = [
                record for record in records if record.offset < ends[TopicPartition(record.topic, record.partition)]
            ]
        out.writelines(map(write, records))
        out.flush()
        written += len(records)
        bar.update(task, completed=written)
        if ends is not None:
            reached = {place for place in left if consumer.position(place) >= ends[place]}
            consumer.pause(*reached)
            left -= reached


def _writer(format_: OutputFormat, key_separator: str | None) -> Writer:
    if format_ is OutputFormat.JSON:
        return lambda record: msgspec.json.encode(as_json_record(record)) + b"\n"
    separator = None if key_separator is None else key_separator.encode()

    def write(record: Record) -> bytes:
        line = record.value or b""
        if separator is not None:
            line = (record.key or b"") + separator + line
        if format_ is OutputFormat.TEXT:
            line = line.decode("utf-8", "backslashreplace").encode()
        return line + b"\n"

    return write
