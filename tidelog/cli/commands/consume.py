"""``tidelog consume``: copy a topic to standard output or to a file."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from log_format.words import counted
from tidelog.admin import Admin
from tidelog.cli.sinks.copying import CopyProgress, copy
from tidelog.cli.sinks.decoded import RawOption, RecordDecoder
from tidelog.cli.sinks.group_copying import GroupCopy, GroupEnd
from tidelog.cli.sinks.output_file import OutputFile
from tidelog.cli.sinks.record_text import OutputFormat, Writer, json_writer, value_writer
from tidelog.cli.sinks.sinks import ParquetSink, Sink, StreamSink
from tidelog.cli.sinks.template import template_writer
from tidelog.cli.sources.lines import STANDARD_STREAM
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    note,
    note_json,
    print_json,
    progress,
    reporting,
)
from tidelog.cli.terminal.filter_options import FilterOption, OnlyKeyOption, filter_of
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.names import TopicArgument, complete_groups
from tidelog.cli.terminal.positions import PositionSpec, parse_position, resolve_range
from tidelog.consumer.consumer import Consumer
from tidelog.types.filter import Filter
from tidelog.unpacking import compression_of

_SUFFIXES_JSON = frozenset({".json", ".jsonl", ".ndjson"})
_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\0": "\0"}


FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="WHERE",
        help="earliest (the default), latest, an offset, -N (N records before each partition's end), "
        "PARTITION:OFFSET,… as printed by an earlier run, a duration before now (1h), a time (2025-01-31T08:00:00Z), or @ and "
        "milliseconds since the epoch.",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        "--to",
        metavar="WHERE",
        help="Where to stop, exclusive; values as for --from. Default: the end when the command starts.",
    ),
]
LastOption = Annotated[
    int | None, typer.Option("--last", min=1, help="Start this many records before each partition's end.")
]
PartitionOption = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.")
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        autocompletion=complete_groups,
        help="Read as a member of this group: share the partitions, start at the committed offsets, and commit what is written.",
    ),
]
MaxOption = Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after this many records.")]
FollowOption = Annotated[
    bool, typer.Option("--follow", help="Keep waiting for new records until Ctrl-C. Default: stop at the current end.")
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="text|json|raw|TEMPLATE",
        help="text: the value, unprintable characters escaped. json: a record per line, as in the HTTP API. "
        "raw: the value's bytes. Or a template as in kcat: %t topic, %p partition, %o offset, %T milliseconds, %k key, %v "
        "value, %h headers, %K and %S lengths, and \\n, \\t.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key-separator", "-k", help="text and raw: write the key and this separator before the value."),
]
HeadersOption = Annotated[
    bool, typer.Option("--headers", help="text and raw: write the headers (name=value,…) and a tab first.")
]
DelimiterOption = Annotated[
    str, typer.Option("--delimiter", help="raw: text written after each record. Empty: nothing; \\0: a zero byte.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file. FILE.parquet: Parquet. FILE.ndjson, .jsonl: JSON. '-': standard output.",
    ),
]
AppendOption = Annotated[bool, typer.Option("--append", help="With --output: append to the file. Not for Parquet.")]
RecordsAsJsonOption = Annotated[
    bool,
    typer.Option("--json", help="Write records as --format json; with --output: write the summary as JSON instead."),
]


def consume(
    topic: TopicArgument,
    *,
    from_: FromOption = None,
    until: UntilOption = None,
    last: LastOption = None,
    partition: PartitionOption = None,
    group: GroupOption = None,
    filter_: FilterOption = None,
    key: OnlyKeyOption = None,
    max_: MaxOption = None,
    follow: FollowOption = False,
    format_: FormatOption = "text",
    key_separator: KeyOption = None,
    headers: HeadersOption = False,
    delimiter: DelimiterOption = "\\n",
    raw: RawOption = False,
    output: OutputOption = None,
    append: AppendOption = False,
    as_json: RecordsAsJsonOption = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
) -> None:
    """Write the records of a topic to standard output, a line each, or to a file.

    Records of one partition come in the order of their offsets. A null value is an empty line in text and raw. At the end, and on
    Ctrl-C, the command prints where to continue: all records before that were written, and no later one. A new file gets its
    name when it is complete; with --append it grows line by line. With --group records are committed once they are written (in a
    file: once it is complete), so after a crash the last ones are read again, and none is lost.

    \b
    Examples:
      tidelog consume orders
      tidelog consume orders --from latest --follow
      tidelog consume orders --from -5 --format '%t %p %o %k %v %h\\n'
      tidelog consume orders --from 2h --until 1h
      tidelog consume orders --last 10 --key-separator ' ' --headers
      tidelog consume orders --from 2025-01-31T08:00:00Z --partition 3 --max 10 --json
      tidelog consume orders --filter type=refund --filter shop='*' --key user-7
      tidelog consume orders --from 0:1,2:1 --output orders.ndjson --append
      tidelog consume orders --group billing --follow
      tidelog consume orders --format raw --delimiter '' > values.bin
    """
    output = None if output == STANDARD_STREAM else output
    if (as_json and output is None) or (output is not None and output.suffix in _SUFFIXES_JSON):
        format_ = OutputFormat.JSON
    reached = _Connection(url, token_file, timeout * 1000)
    with reporting(as_json=as_json):
        layout = _Layout(*_format(format_), key_separator, headers, delimiter)
        layout.check(output, append=append)
        where, end_before = _where(from_, last, partition, group), _end(until, group, follow=follow)
        copied = CopyProgress(filtered=bool(filter_) or key is not None)
        copying = GroupCopy(copied, commits_on_the_way=output is None)
        consumer, interrupts = _consumer(topic, group, copying, reached, filter_of(filter_, key)), Interrupts()
        # On one terminal a progress bar and records would overwrite each other.
        shown = not as_json and (output is not None or not sys.stdout.isatty())
        with consumer, reached.admin() as admin, _last_commit(copying, consumer, group):
            range_ = resolve_range(admin, topic, where, partition, end_before)
            sink = layout.sink(output, append=append, decoder=None if raw else RecordDecoder(admin))
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


@dataclass(frozen=True, slots=True)
class _Connection:
    """Settings by which the gateways are reached."""

    url: str | None
    token_file: Path | None
    api_timeout_ms: float

    def admin(self) -> Admin:
        """Return a client for administrative requests."""
        return Admin(self.url, token_file=self.token_file, timeout_ms=self.api_timeout_ms)


def _consumer(
    topic: str, group: str | None, copying: GroupCopy, reached: _Connection, wanted: Filter | None
) -> Consumer:
    if group is None:
        return Consumer(
            bootstrap_servers=reached.url,
            token_file=reached.token_file,
            auto_offset_reset="none",
            filter=wanted,
            api_timeout_ms=reached.api_timeout_ms,
        )
    consumer = Consumer(
        topic,
        bootstrap_servers=reached.url,
        token_file=reached.token_file,
        group=group,
        filter=wanted,
        client_id="tidelog consume",
        enable_auto_commit=False,
        api_timeout_ms=reached.api_timeout_ms,
        on_revoked=lambda _places: copying.revoked(consumer),
    )
    return consumer


@contextlib.contextmanager
def _last_commit(copying: GroupCopy, consumer: Consumer, group: str | None) -> Iterator[None]:
    """Commit the written records, if the output is durable, however the command ended."""
    try:
        yield
    finally:
        if group is not None:
            copying.commit(consumer)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Output format of records."""

    format_: OutputFormat
    template: str | None
    key_separator: str | None
    headers: bool
    delimiter: str

    def check(self, output: Path | None, *, append: bool) -> None:
        """Raise ``ValueError`` for contradictory options."""
        compression = None if output is None else compression_of(str(output))
        if compression is not None:
            raise ValueError(
                f"--output {output}: consume does not compress with {compression}: "
                "choose a name without that suffix, or pipe the records"
            )
        with_own_places = self.format_ is OutputFormat.JSON or _is_parquet(output)
        if with_own_places and (self.key_separator is not None or self.headers):
            raise ValueError(
                "--key-separator and --headers are for text and raw: JSON and Parquet always have key and headers"
            )
        if self.template is not None and (self.key_separator is not None or self.headers or _is_parquet(output)):
            raise ValueError("a template excludes --key-separator, --headers and Parquet: it defines the whole output")
        if append and (output is None or _is_parquet(output)):
            raise ValueError("--append needs --output, and a Parquet file can't be appended to")

    def sink(self, output: Path | None, *, append: bool, decoder: RecordDecoder | None) -> Sink:
        """Return the sink for the records. Text and templates show decoded values. Raises ``CommandFailed``."""
        if output is not None and _is_parquet(output):
            return ParquetSink(output)
        writer = self._writer(output)
        if decoder is not None and (self.template is not None or self.format_ is OutputFormat.TEXT):
            writer = decoder.writer(writer)
        return StreamSink(writer, None if output is None else OutputFile(output, append=append))

    def _writer(self, output: Path | None) -> Writer:
        if self.template is not None:
            return template_writer(self.template, for_terminal=output is None and sys.stdout.isatty())
        if self.format_ is OutputFormat.JSON:
            return json_writer()
        separator = None if self.key_separator is None else self.key_separator.encode()
        delimiter = b"\n" if self.format_ is OutputFormat.TEXT else _unescaped(self.delimiter).encode()
        return value_writer(self.format_, key_separator=separator, headers=self.headers, delimiter=delimiter)


def _is_parquet(output: Path | None) -> bool:
    return output is not None and output.suffix == ".parquet"


@contextlib.contextmanager
def _kept(sink: Sink, copied: CopyProgress, output: Path | None, *, as_json: bool, group: str | None) -> Iterator[None]:
    """Close the output when the command ends, also by an error, and report the progress; discard output without records."""
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


def _report(copied: CopyProgress, output: Path | None, elapsed_s: float, as_json: bool, group: str | None) -> None:
    summary = {
        "record_count": copied.record_count,
        "elapsed_ms": int(elapsed_s * 1000),
        "next_offsets": [
            {"partition": place.partition, "offset": offset} for place, offset in sorted(copied.positions.items())
        ],
    }
    if as_json:
        # Without a file, standard output has the records.
        (note_json if output is None else print_json)(summary)
        return
    into = "" if output is None else f" in {output}"
    records = counted(copied.record_count, "record")
    if group is not None:
        note(f"{records}{into}. Group {group} continues after them.")
        return
    note(f"{records}{into}. Continue with --from {copied.next_offsets()}")


def _where(from_: str | None, last: int | None, partition: list[int] | None, group: str | None) -> PositionSpec:
    if group is not None and (from_ is not None or last is not None or partition):
        raise ValueError(
            "--group excludes --from, --last and --partition: reading starts at the group's committed offsets"
        )
    if last is None:
        return parse_position(from_ or "earliest")
    if from_ is not None:
        raise ValueError("--from and --last exclude each other")
    return PositionSpec(last=last)


def _end(until: str | None, group: str | None, *, follow: bool) -> PositionSpec | None:
    if until is None:
        return None
    if group is not None or follow:
        raise ValueError("--until excludes --group and --follow, which determine the end themselves")
    return parse_position(until, "--until")


def _format(given: str) -> tuple[OutputFormat, str | None]:
    """Return the format and the template, if the option is one. Raises ``ValueError``."""
    if given in list(OutputFormat):
        return OutputFormat(given), None
    if "%" not in given:
        names = ", ".join(OutputFormat)
        raise ValueError(f"--format {given!r} is neither one of {names} nor a template such as '%k %v\\n'")
    return OutputFormat.RAW, given


def _unescaped(text: str) -> str:
    for escape, meant in _ESCAPES.items():
        text = text.replace(escape, meant)
    return text
