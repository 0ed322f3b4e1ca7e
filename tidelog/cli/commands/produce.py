"""``tidelog produce``: send files and pipes to a topic."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from log_format.topic.config import SETTINGS
from log_format.words import counted
from tidelog.admin import Admin
from tidelog.bodies.encode import Compression
from tidelog.cli.sources.csv import read_csv
from tidelog.cli.sources.expected import ExpectedLines
from tidelog.cli.sources.json_objects import has_plain_objects, read_objects
from tidelog.cli.sources.lines import STANDARD_STREAM, Lines, read_lines, sources
from tidelog.cli.sources.ndjson import send_ndjson
from tidelog.cli.sources.parquet import read_parquet, row_count
from tidelog.cli.sources.read_ahead import ReadAhead
from tidelog.cli.sources.rows import Fields, Rows
from tidelog.cli.sources.sending import Destination, send_lines, send_rows
from tidelog.cli.sources.tally import Failure, Tally
from tidelog.cli.sources.times import Times, TimeUnit
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    JsonOption,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    note,
    print_json,
    progress,
    reporting,
)
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.names import TopicArgument
from tidelog.errors import UnknownTopic
from tidelog.unpacking import compression_of


class InputFormat(StrEnum):
    """Format of the input."""

    LINES = "lines"
    NDJSON = "ndjson"
    OBJECTS = "objects"
    CSV = "csv"
    PARQUET = "parquet"


_ROWS = frozenset({InputFormat.OBJECTS, InputFormat.CSV, InputFormat.PARQUET})
_SUFFIXES = {
    ".ndjson": InputFormat.NDJSON,
    ".jsonl": InputFormat.NDJSON,
    ".csv": InputFormat.CSV,
    ".parquet": InputFormat.PARQUET,
}

FilesArgument = Annotated[
    list[Path] | None, typer.Argument(help="Files to read. Without files, and for '-': standard input.")
]
FormatOption = Annotated[
    InputFormat | None,
    typer.Option(
        "--format",
        "-f",
        help="lines: each line is a value. ndjson: each line is a record as in the HTTP API. "
        "objects: each line is a JSON object, and a value. "
        "csv, parquet: each row is a value, as a JSON object. Default: by the files' suffixes, else lines; .ndjson and .jsonl "
        "are objects where the first has neither value nor value_base64.",
    ),
]
KeySeparatorOption = Annotated[
    str | None, typer.Option("--key-separator", "-k", help="lines: the separator between key and value.")
]
KeyFieldOption = Annotated[
    str | None, typer.Option("--key-field", metavar="NAME", help="objects, csv, parquet: the field that is the key.")
]
TimestampFieldOption = Annotated[
    str | None,
    typer.Option(
        "--timestamp-field",
        metavar="NAME",
        help="objects, csv, parquet: the time, in ms since the epoch (--timestamp-unit) or ISO 8601.",
    ),
]
TimestampUnitOption = Annotated[TimeUnit, typer.Option(help="Unit of numbers in --timestamp-field, since the epoch.")]
AllowOldOption = Annotated[
    bool,
    typer.Option("--allow-old", help="Accept times before 2000, and times older than the topic's retention.ms."),
]
ValueFieldOption = Annotated[
    str | None,
    typer.Option(
        "--value-field",
        metavar="NAME",
        help="objects, csv, parquet: the field that is the value. Default: the whole row.",
    ),
]
CsvDelimiterOption = Annotated[
    str, typer.Option("--csv-delimiter", metavar="CHARACTER", help="csv: the separator of fields; 'tab' for a tab.")
]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="The key of every record that has none of its own. Not for ndjson.")
]
PartitionOption = Annotated[
    int | None,
    typer.Option(
        "--partition",
        "-p",
        min=0,
        help="The partition of all records. Default: by key; records without one go to another partition with each batch.",
    ),
]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; repeatable. Not for ndjson."),
]
DeliverAfterOption = Annotated[
    float | None,
    typer.Option(
        metavar="DURATION",
        parser=in_seconds(least=0),
        help="Delay the records by so much (90s, 1h) after their receipt. Not for --format ndjson.",
    ),
]


def produce(
    topic: TopicArgument,
    files: FilesArgument = None,
    *,
    format_: FormatOption = None,
    key: KeyOption = None,
    key_separator: KeySeparatorOption = None,
    key_field: KeyFieldOption = None,
    timestamp_field: TimestampFieldOption = None,
    timestamp_unit: TimestampUnitOption = TimeUnit.MS,
    allow_old: AllowOldOption = False,
    value_field: ValueFieldOption = None,
    csv_delimiter: CsvDelimiterOption = ",",
    partition: PartitionOption = None,
    header: HeaderOption = None,
    deliver_after: DeliverAfterOption = None,
    compression: Annotated[Compression | None, typer.Option(help="Compression of requests. Default: none.")] = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Send lines or rows to a topic, and return when all are acknowledged.

    Compressed input (gzip, zstd, bzip2, lz4) is decompressed.

    It stops at the first error and on Ctrl-C, and reports how many records are stored, and up to which line without a gap.

    \b
    Examples:
      tidelog produce orders access.log
      echo hello | tidelog produce orders --key user-7
      printf 'user-7:hello' | tidelog produce orders --key-separator :
      echo '{"key": "user-7", "value": {"amount": 3}}' | tidelog produce orders --format ndjson
      echo '{"user": "user-7", "amount": 3}' | tidelog produce orders --format objects --key-field user
      tidelog produce orders orders.csv --key-field user --timestamp-field time --header source=shop
      tidelog produce orders orders.ndjson.gz
      tidelog produce orders orders.parquet --key-field user --compression zstd
      tidelog consume orders --format json | tidelog produce clicks --format ndjson
    """
    with reporting(as_json=as_json):
        paths = sources(files)
        chosen = format_ or _by_name(paths)
        if format_ is None and chosen is InputFormat.NDJSON and has_plain_objects(paths):
            chosen = InputFormat.OBJECTS
            if not as_json:
                note("Each line is a plain object, so it becomes a value as it is (--format objects).")
        fields = Fields(key=key_field, timestamp=timestamp_field, value=value_field)
        delimiter = "\t" if csv_delimiter == "tab" else csv_delimiter
        _check(chosen, key_separator, fields, header, delimiter)
        _check_added(chosen, deliver_after, key, key_separator)
        if timestamp_field is not None:
            times = _times(topic, timestamp_unit, url, token_file, allow_old=allow_old)
            fields = replace(fields, times=times)
        destination = Destination(
            url=url,
            token_file=token_file,
            partition=partition,
            headers=_headers(header),
            compression=compression,
            timeout_ms=timeout * 1000,
            deliver_after_s=deliver_after,
            key=None if key is None else key.encode(),
        )
        work = _Work(chosen, paths, fields, delimiter, None if key_separator is None else key_separator.encode())
        _send(work, Tally(topic), destination, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Work:
    """Input and its format."""

    format: InputFormat
    paths: list[Path]
    fields: Fields
    delimiter: str
    separator: bytes | None


def _send(work: _Work, tally: Tally, destination: Destination, *, as_json: bool) -> None:
    # This command itself reports failed deliveries.
    logging.getLogger("tidelog").addHandler(logging.NullHandler())
    began, interrupts, paths = time.monotonic(), Interrupts(), work.paths
    typing = STANDARD_STREAM in paths and sys.stdin.isatty()
    try:
        with interrupts.caught(), progress(f"to {tally.topic}", shown=not as_json and not typing) as bar:
            task = bar.add_task("records", total=None)
            expected = ExpectedLines(paths)
            rows = row_count(paths) if work.format is InputFormat.PARQUET else None
            tally.show = lambda count: bar.update(task, completed=count, total=rows or expected.total)
            lines = expected.counted(read_lines(paths, expected.count_bytes))
            if work.format is InputFormat.LINES:
                send_lines(tally, lines, destination, interrupts, separator=work.separator)
            elif work.format is InputFormat.NDJSON:
                send_ndjson(tally, ReadAhead(lines), destination, interrupts)
            else:
                send_rows(tally, _rows(work, lines), destination, interrupts)
    finally:
        _report(tally, time.monotonic() - began, as_json=as_json, ended=sys.exc_info()[0] is None)


def _rows(work: _Work, lines: Iterator[Lines]) -> Iterator[Rows]:
    if work.format is InputFormat.PARQUET:
        return read_parquet(work.paths, work.fields)
    ahead = ReadAhead(lines)
    if work.format is InputFormat.OBJECTS:
        return read_objects(ahead, work.fields)
    return read_csv(ahead, work.fields, delimiter=work.delimiter)


def _by_name(paths: list[Path]) -> InputFormat:
    plain = [path if compression_of(str(path)) is None else path.with_suffix("") for path in paths]
    found = {_SUFFIXES.get(path.suffix, InputFormat.LINES) for path in plain}
    if len(found) > 1:
        raise ValueError(
            f"the files have different formats ({', '.join(sorted(found))}): choose one with --format, or send them separately"
        )
    return found.pop()


def _check(
    chosen: InputFormat, key_separator: str | None, fields: Fields, header: list[str] | None, delimiter: str
) -> None:
    """Raise ``ValueError`` for options that the format does not allow."""
    if key_separator is not None and chosen is not InputFormat.LINES:
        raise ValueError("--key-separator needs --format lines")
    if key_separator == "":
        raise ValueError("--key-separator is empty")
    if fields.named() and chosen not in _ROWS:
        hint = ": an NDJSON record has its own key; for other objects use --format objects"
        what = "--key-field, --timestamp-field and --value-field need --format objects, csv or parquet"
        raise ValueError(what + (hint if chosen is InputFormat.NDJSON else ""))
    if header and chosen is InputFormat.NDJSON:
        raise ValueError("--header is not for --format ndjson: a record has its own")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"--csv-delimiter {delimiter!r} is not one character")


def _check_added(chosen: InputFormat, deliver_after: float | None, key: str | None, key_separator: str | None) -> None:
    if key is not None and (chosen is InputFormat.NDJSON or key_separator is not None):
        raise ValueError("--key excludes --key-separator and --format ndjson, where each record has its own key")
    if deliver_after is not None and chosen is InputFormat.NDJSON:
        raise ValueError("--deliver-after is not for --format ndjson: a record has its own deliver_after_ms")


def _times(topic: str, unit: TimeUnit, url: str | None, token_file: Path | None, *, allow_old: bool) -> Times:
    """Return the reader of times, with the topic's retention; the default retention for a missing topic."""
    if allow_old:
        return Times(unit=unit)
    config: Mapping[str, int | str] = {}
    with Admin(url, token_file=token_file) as admin, contextlib.suppress(UnknownTopic):
        config = admin.describe_topic(topic).config
    is_kept = "delete" not in str(config.get("cleanup.policy", "delete"))
    if config.get("message.timestamp.type") == "LogAppendTime":
        return Times(unit=unit)
    retention_ms = -1 if is_kept else int(config.get("retention.ms", SETTINGS["retention.ms"].default))
    return Times(unit=unit, now_ms=int(time.time() * 1000), retention_ms=retention_ms)


def _headers(given: list[str] | None) -> list[tuple[str, bytes]]:
    headers = []
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--header {text!r} is not NAME=VALUE")
        headers.append((name, value.encode()))
    return headers


_SAID_OF: Final = {
    Failure.REFUSED: (
        "was refused, and is not stored",
        "were refused, and are not stored: a request is stored whole or not at all",
    ),
    Failure.NOT_TAKEN: ("is not stored: no gateway took it", "are not stored: no gateway took them"),
    Failure.UNKNOWN: ("may be stored or not: its answer was lost", "may be stored or not: their answer was lost"),
}
"""Of one record, and of several, that are not acknowledged."""


def _report(tally: Tally, elapsed_s: float, *, as_json: bool, ended: bool) -> None:
    count = tally.count
    through = tally.stored_through
    if as_json:
        print_json(
            {
                "topic": tally.topic,
                "record_count": count,
                "scheduled_count": tally.scheduled_count,
                "dead_letter_count": tally.dead_letter_count,
                "failed_count": tally.failed_count,
                "elapsed_ms": int(elapsed_s * 1000),
                "partitions": tally.ranges(),
                "stored_through": None if through is None else _place(through.path, through.unit, through.number),
            }
        )
        return
    rate = f", {count / elapsed_s:,.0f}/s" if elapsed_s > 0 else ""
    note(f"{counted(count, 'record')} stored in {tally.topic}{rate}.")
    if tally.scheduled_count:
        delayed = f"{tally.scheduled_count:,} of them {'is' if tally.scheduled_count == 1 else 'are'} delayed"
        note(f"{delayed}: tidelog topic scheduled list {tally.topic}")
    if tally.dead_letter_count:
        note(
            f"{counted(tally.dead_letter_count, 'record')} went to {tally.topic}.dead-letters instead: not of the topic's schema."
        )
        note(f"  the first: {tally.dead_letter_reason}")
    for failure, count in tally.failures.items():
        note(f"{counted(count, 'record')} {_SAID_OF[failure][count != 1]}.")
    if tally.failed_at is not None and str(tally.failed_at) not in str(tally.first_error and tally.first_error.detail):
        note(f"First failure: {tally.failed_at}.")
    if not ended and through is not None:
        note(f"Stored without a gap up to {through}.")


def _place(path: Path, unit: str, number: int) -> dict[str, str | int]:
    return {"file": str(path), unit: number}
