"""``tidelog cat``: one record's value."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidelog.cli.sinks.record_text import OutputFormat, json_writer, visible
from tidelog.cli.terminal.console import (
    ADMIN_TIMEOUT_S,
    CommandFailed,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    reporting,
)
from tidelog.cli.terminal.names import TopicArgument
from tidelog.cli.terminal.tables import time_text
from tidelog.cli.terminal.visible import visible_text
from tidelog.consumer.consumer import Consumer
from tidelog.types.record import Record, TopicPartition


def cat(
    topic: TopicArgument,
    partition: Annotated[int, typer.Argument(min=0, help="The partition.")],
    offset: Annotated[int, typer.Argument(min=0, help="The record's offset.")],
    *,
    format_: Annotated[
        OutputFormat,
        typer.Option(
            "--format",
            "-f",
            help="raw: the value's bytes. text: all fields, for people. json: the record as in the HTTP API.",
        ),
    ] = OutputFormat.RAW,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
) -> None:
    """Write one record's value, byte for byte, with nothing after it.

    \b
    Examples:
      tidelog cat orders 0 1
      tidelog cat orders 0 1 --format text
      tidelog cat orders 0 1 --json
      tidelog cat orders 0 1 > value.bin
    """
    chosen = OutputFormat.JSON if as_json else format_
    with (
        reporting(as_json=as_json),
        Consumer(
            bootstrap_servers=url, token_file=token_file, auto_offset_reset="none", api_timeout_ms=timeout * 1000
        ) as consumer,
    ):
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, offset)
        found = consumer.poll(0, 1)
        if not found:
            raise CommandFailed(f"{topic}/{partition} has no record at offset {offset} yet: the partition ends there")
        if found[0].offset != offset:
            raise CommandFailed(
                f"{topic}/{partition} has no record at offset {offset} any more; the next one is at {found[0].offset}"
            )
        sys.stdout.buffer.write(_shown(found[0], chosen))
        sys.stdout.buffer.flush()


def _shown(record: Record, format_: OutputFormat) -> bytes:
    if format_ is OutputFormat.RAW:
        return record.value or b""
    if format_ is OutputFormat.JSON:
        return json_writer()(record)
    time = time_text(record.timestamp_ms, "milliseconds")
    lines = [
        f"place      {record.topic}/{record.partition}@{record.offset}",
        f"timestamp  {time} ({record.timestamp_ms})",
        f"key        {'(null)' if record.key is None else visible(record.key)}",
        *(
            f"header     {visible_text(name)}={'(null)' if value is None else visible(value)}"
            for name, value in record.headers
        ),
        f"value      {'(null)' if record.value is None else visible(record.value)}",
    ]
    return "\n".join(lines).encode() + b"\n"
