"""``tidelog produce``: lines into a topic."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidelog import limits
from tidelog.cli.console import (
    STREAM_TIMEOUT_S,
    CommandFailed,
    JsonOption,
    TimeoutOption,
    UrlOption,
    note,
    print_json,
    progress,
    reporting,
)
from tidelog.cli.lines import STANDARD_INPUT, read_lines, sources
from tidelog.cli.read_ahead import ReadAhead
from tidelog.cli.tally import Tally
from tidelog.deadline import Deadline
from tidelog.encode import NDJSON, Compression
from tidelog.errors import RequestRefused
from tidelog.produce import produce as produce_request
from tidelog.producer import Producer
from tidelog.transport import Transport


class InputFormat(StrEnum):
    """What a line is."""

    LINES = "lines"
    NDJSON = "ndjson"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where records go and how."""

    url: str | None
    partition: int | None
    headers: list[tuple[str, bytes]]
    compression: Compression | None
    timeout_ms: float


def produce(
    topic: Annotated[str, typer.Argument(help="The topic's name.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Files to read; none, or '-': standard input.")] = None,
    *,
    format_: Annotated[
        InputFormat,
        typer.Option("--format", "-f", help="lines: each line is a value. ndjson: each is a record of the HTTP API."),
    ] = InputFormat.LINES,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="lines: what stands between key and value.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Where all records go. Default: by key, else in turn."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="lines: on every record; may be given many times."),
    ] = None,
    compression: Annotated[Compression | None, typer.Option(help="Of requests. Default: none.")] = None,
    url: UrlOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Send lines to a topic, and return when all are acknowledged.

    It stops at the first error, says how many records were stored before it, and never sends a record twice.

    \b
    Examples:
      tidelog produce orders access.log
      printf 'user-7:hello' | tidelog produce orders --key-separator :
      echo '{"key": "user-7", "value": {"amount": 3}}' | tidelog produce orders --format ndjson
      tidelog consume orders --format json | tidelog produce copy --format ndjson
    """
    with reporting(as_json=as_json):
        if format_ is InputFormat.NDJSON and (key_separator is not None or header):
            raise ValueError("--key-separator and --header are for --format lines: an NDJSON record has its own")
        destination = Destination(
            url=url,
            partition=partition,
            headers=_headers(header),
            compression=compression,
            timeout_ms=timeout * 1000,
        )
        paths = sources(files)
        began = time.monotonic()
        typing = STANDARD_INPUT in paths and sys.stdin.isatty()
        with progress(f"to {topic}", shown=not as_json and not typing) as bar:
            task = bar.add_task("records", total=None)
            tally = Tally(topic, lambda count: bar.update(task, completed=count))
            try:
                if format_ is InputFormat.NDJSON:
                    _send_ndjson(tally, _all_lines(paths), destination)
                else:
                    separator = None if key_separator is None else key_separator.encode()
                    _send_lines(tally, _keyed(_all_lines(paths), separator), destination)
            finally:
                _report(tally, time.monotonic() - began, as_json)


def _all_lines(paths: Iterable[Path]) -> Iterator[list[bytes]]:
    for path in paths:
        yield from read_lines(path)


def _keyed(lines: Iterable[list[bytes]], separator: bytes | None) -> Iterator[tuple[bytes | None, bytes]]:
    number = 0
    for group in lines:
        for line in group:
            number += 1
            if separator is None:
                yield None, line
                continue
            key, found, value = line.partition(separator)
            if not found:
                raise CommandFailed(f"line {number} has no key: {separator.decode()!r} is not in it")
            yield key, value


def _send_lines(tally: Tally, records: Iterable[tuple[bytes | None, bytes]], destination: Destination) -> None:
    with Producer(
        destination.url,
        compression=destination.compression,
        delivery_timeout_ms=destination.timeout_ms,
        on_delivery=tally.deliver,
    ) as producer:
        for key, value in records:
            producer.send(tally.topic, value, key=key, partition=destination.partition, headers=destination.headers)
            if tally.first_error is not None:
                break
    if tally.first_error is not None:
        raise tally.first_error


def _send_ndjson(tally: Tally, lines: Iterable[list[bytes]], destination: Destination) -> None:
    """The lines as they are: the gateway knows best what a record may be."""
    transport = Transport(destination.url)
    first_line = 1
    try:
        for group in ReadAhead(lines):
            for part in _bodies(group):
                try:
                    result = produce_request(
                        transport,
                        tally.topic,
                        b"\n".join(part),
                        NDJSON,
                        deadline=Deadline(destination.timeout_ms),
                        partition=destination.partition,
                        compression=destination.compression,
                    )
                except RequestRefused as error:
                    raise _at_its_line(error, first_line) from error
                first_line += len(part)
                for stored in result.partitions:
                    tally.add(stored)
    finally:
        transport.close()


def _bodies(lines: list[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size_bytes = 0
    for line in lines:
        if part and size_bytes + len(line) >= limits.REQUEST_TARGET_BYTES:
            yield part
            part, size_bytes = [], 0
        part.append(line)
        size_bytes += len(line) + 1
    yield part


def _at_its_line(error: RequestRefused, first_line: int) -> RequestRefused:
    """The gateway counts the lines of a request; people count those of their input."""
    found = error.fields.get("errors")
    if not isinstance(found, list):
        return error
    for each in found:
        match = re.fullmatch(r"line ([0-9]+)", str(each.get("where")))
        if match is not None:
            each["where"] = f"line {int(match.group(1)) + first_line - 1}"
    moved = type(error)(f"{found[0].get('where')}: {found[0].get('what')}", code=error.code, status=error.status)
    moved.fields.update(error.fields)
    moved.request_id = error.request_id
    return moved


def _headers(given: list[str] | None) -> list[tuple[str, bytes]]:
    headers = []
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--header {text!r} is not NAME=VALUE")
        headers.append((name, value.encode()))
    return headers


def _report(tally: Tally, elapsed_s: float, as_json: bool) -> None:
    count = tally.count
    if as_json:
        print_json(
            {
                "topic": tally.topic,
                "record_count": count,
                "failed_count": tally.failed_count,
                "elapsed_ms": int(elapsed_s * 1000),
                "partitions": tally.ranges(),
            }
        )
        return
    rate = f", {count / elapsed_s:,.0f}/s" if elapsed_s > 0 else ""
    note(f"{count:,} record{'' if count == 1 else 's'} stored in {tally.topic}{rate}.")
    if tally.failed_count:
        note(f"{tally.failed_count:,} more were sent and not acknowledged.")
