"""``tidelog consume``: a topic onto standard output or into a file."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tidelog.admin import Admin
from tidelog.cli.sinks.copying import Copied, copy
from tidelog.cli.sinks.group_copying import GroupCopy, GroupEnd
from tidelog.cli.sinks.output_file import OutputFile
from tidelog.cli.sinks.record_text import OutputFormat, Writer, json_writer, value_writer
from tidelog.cli.sinks.sinks import ParquetSink, Sink, StreamSink
from tidelog.cli.sources.lines import STANDARD_STREAM
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    TimeoutOption,
    UrlOption,
    note,
    note_json,
    print_json,
    progress,
    reporting,
)
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.names import TopicArgument, complete_groups
from tidelog.cli.terminal.where import Where, find, parse_where
from tidelog.consumer.consumer import Consumer

_SUFFIXES_JSON = frozenset({".json", ".jsonl", ".ndjson"})
_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\0": "\0"}


FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="WHERE",
        help="beginning (the default), end, an offset, PARTITION:OFFSET,… as an earlier run named it, "
        "a time (2025-01-31T08:00:00Z), or @ and milliseconds since the epoch.",
    ),
]
LastOption = Annotated[int | None, typer.Option("--last", min=1, help="Begin so many before each partition's end.")]
PartitionOption = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this one; may be given many times.")
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        autocompletion=complete_groups,
        help="Share the topic with the other members of this group, begin where it has committed, and commit what is written.",
    ),
]
MaxOption = Annotated[int | None, typer.Option("--max", "-n", min=1, help="End after so many records.")]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Go on as records come, until Ctrl-C. Else: up to what is there now.")
]
FormatOption = Annotated[
    OutputFormat,
    typer.Option(
        "--format",
        "-f",
        help="text: the value, what no terminal can show escaped. json: the HTTP API's record, a line each. "
        "raw: the value's bytes.",
    ),
]
KeyOption = Annotated[
    str | None, typer.Option("--key-separator", "-k", help="text and raw: write the key and this before the value.")
]
HeadersOption = Annotated[
    bool, typer.Option("--headers", help="text and raw: write name=value,… and a tab before the rest.")
]
DelimiterOption = Annotated[
    str, typer.Option("--delimiter", help="raw: what is written behind a record. Empty: nothing; \\0: a zero byte.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write there. FILE.parquet: Parquet. FILE.ndjson, .jsonl: JSON. '-': standard output.",
    ),
]
AppendOption = Annotated[bool, typer.Option("--append", help="With --output: add to the file. Not for Parquet.")]
RecordsAsJsonOption = Annotated[
    bool, typer.Option("--json", help="Records as --format json; with --output: the summary as JSON instead.")
]


def consume(
    topic: TopicArgument,
    *,
    from_: FromOption = None,
    last: LastOption = None,
    partition: PartitionOption = None,
    group: GroupOption = None,
    max_: MaxOption = None,
    follow: FollowOption = False,
    format_: FormatOption = OutputFormat.TEXT,
    key_separator: KeyOption = None,
    headers: HeadersOption = False,
    delimiter: DelimiterOption = "\\n",
    output: OutputOption = None,
    append: AppendOption = False,
    as_json: RecordsAsJsonOption = False,
    url: UrlOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
) -> None:
    """Write the records of a topic to standard output, a line each, or to a file.

    Records of one partition come in the order of their offsets. A null value is an empty line in text and raw. At the end,
    also by Ctrl-C, it says where to go on: every record before that was written, and none behind it. A new file gets
    its name when it is whole; with --append it grows line by line. With --group records are committed once they are written
    (into a file: once it is whole), so after a crash the last of them come again, and none is missing.

    \b
    Examples:
      tidelog consume orders
      tidelog consume orders --from end --follow
      tidelog consume orders --last 10 --key-separator ' ' --headers
      tidelog consume orders --from 2025-01-31T08:00:00Z --partition 3 --max 10 --json
      tidelog consume orders --from 0:1,2:1 --output orders.ndjson --append
      tidelog consume orders --output orders.parquet
      tidelog consume orders --group billing --json
      tidelog consume orders --group billing --follow
      tidelog consume orders --format raw --delimiter '' > values.bin
    """
    output = None if output == STANDARD_STREAM else output
    if (as_json and output is None) or (output is not None and output.suffix in _SUFFIXES_JSON):
        format_ = OutputFormat.JSON
    layout = _Layout(format_, key_separator, headers, delimiter)
    api_timeout_ms = timeout * 1000
    copied = Copied()
    with reporting(as_json=as_json):
        layout.check(output, append=append)
        if group is not None and (from_ is not None or last is not None or partition):
            raise ValueError("--group goes on where the group is: --from, --last and --partition are without it")
        where = _where(from_, last)
        copying = GroupCopy(copied, commits_on_the_way=output is None)
        consumer = _consumer(topic, group, copying, url, api_timeout_ms)
        interrupts = Interrupts()
        # On one terminal a progress bar and records would write over each other.
        shown = not as_json and (output is not None or not sys.stdout.isatty())
        with consumer, Admin(url, timeout_ms=api_timeout_ms) as admin, _last_commit(copying, consumer, group):
            range_ = find(admin, topic, where, partition)
            sink = layout.sink(output, append=append)
            with (
                interrupts.caught(),
                _kept(sink, copied, output, as_json=as_json, group=group),
                progress(f"from {topic}", shown=shown) as bar,
            ):
                if group is not None:
                    end = None if follow else GroupEnd(admin, group, range_)
                    copying.run(consumer, sink, end, records_max=max_, interrupts=interrupts, bar=bar)
                    return
                copy(consumer, range_, sink, copied, follow=follow, records_max=max_, interrupts=interrupts, bar=bar)


def _consumer(topic: str, group: str | None, copying: GroupCopy, url: str | None, api_timeout_ms: float) -> Consumer:
    if group is None:
        return Consumer(bootstrap_servers=url, auto_offset_reset="none", api_timeout_ms=api_timeout_ms)
    consumer = Consumer(
        topic,
        bootstrap_servers=url,
        group=group,
        client_id="tidelog consume",
        enable_auto_commit=False,
        api_timeout_ms=api_timeout_ms,
        on_revoked=lambda _places: copying.revoked(consumer),
    )
    return consumer


@contextlib.contextmanager
def _last_commit(copying: GroupCopy, consumer: Consumer, group: str | None) -> Iterator[None]:
    """Commit what was written, if that lasts, however the command ended."""
    try:
        yield
    finally:
        if group is not None:
            copying.commit(consumer)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a record looks like."""

    format_: OutputFormat
    key_separator: str | None
    headers: bool
    delimiter: str

    def check(self, output: Path | None, *, append: bool) -> None:
        """Raises ``ValueError`` for options that contradict each other."""
        with_own_places = self.format_ is OutputFormat.JSON or _is_parquet(output)
        if with_own_places and (self.key_separator is not None or self.headers):
            raise ValueError(
                "--key-separator and --headers are for text and raw: JSON and Parquet have a place for both"
            )
        if append and (output is None or _is_parquet(output)):
            raise ValueError("--append is for --output, and a Parquet file can't be appended to")

    def sink(self, output: Path | None, *, append: bool) -> Sink:
        """Where records go. Raises ``CommandFailed``."""
        if output is not None and _is_parquet(output):
            return ParquetSink(output)
        return StreamSink(self._writer(), None if output is None else OutputFile(output, append=append))

    def _writer(self) -> Writer:
        if self.format_ is OutputFormat.JSON:
            return json_writer()
        separator = None if self.key_separator is None else self.key_separator.encode()
        delimiter = b"\n" if self.format_ is OutputFormat.TEXT else _unescaped(self.delimiter).encode()
        return value_writer(self.format_, key_separator=separator, headers=self.headers, delimiter=delimiter)


def _is_parquet(output: Path | None) -> bool:
    return output is not None and output.suffix == ".parquet"


@contextlib.contextmanager
def _kept(sink: Sink, copied: Copied, output: Path | None, *, as_json: bool, group: str | None) -> Iterator[None]:
    """At every end: keep what was written where it is of use, and report how far it came."""
    began = time.monotonic()
    try:
        yield
    except BrokenPipeError:
        raise
    except BaseException:
        if copied.record_count:
            sink.close()
            copied.lasts = True
            _report(copied, output, time.monotonic() - began, as_json, group)
        else:
            sink.discard()
        raise
    sink.close()
    copied.lasts = True
    _report(copied, output, time.monotonic() - began, as_json, group)


def _report(copied: Copied, output: Path | None, elapsed_s: float, as_json: bool, group: str | None) -> None:
    summary = {
        "record_count": copied.record_count,
        "elapsed_ms": int(elapsed_s * 1000),
        "next_offsets": [
            {"partition": place.partition, "offset": offset} for place, offset in sorted(copied.positions.items())
        ],
    }
    if as_json:
        # Without a file standard output is the records'.
        (note_json if output is None else print_json)(summary)
        return
    into = "" if output is None else f" in {output}"
    records = f"{copied.record_count:,} record{'' if copied.record_count == 1 else 's'}"
    if group is not None:
        note(f"{records}{into}. Group {group} goes on behind them.")
        return
    note(f"{records}{into}. Go on with --from {copied.next_offsets()}")


def _where(from_: str | None, last: int | None) -> Where:
    if last is None:
        return parse_where(from_ or "beginning")
    if from_ is not None:
        raise ValueError("--from and --last exclude each other")
    return Where(last=last)


def _unescaped(text: str) -> str:
    for escape, meant in _ESCAPES.items():
        text = text.replace(escape, meant)
    return text
