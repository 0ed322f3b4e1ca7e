"""``tidelog tail``: incoming records of some topics, for people."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tidelog.admin import Admin
from tidelog.cli.commands.consume import UntilOption
from tidelog.cli.sinks.copying import CopyProgress, copy
from tidelog.cli.sinks.decoded import RawOption, RecordDecoder
from tidelog.cli.sinks.record_text import json_writer, place_writer, topic_colours
from tidelog.cli.sinks.sinks import StreamSink
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    progress,
    reporting,
)
from tidelog.cli.terminal.filter_options import FilterOption, OnlyKeyOption, filter_of
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.names import TopicsArgument
from tidelog.cli.terminal.positions import PositionSpec, Range, parse_position, resolve_range
from tidelog.consumer.consumer import Consumer

FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        "-f",
        help="No effect: tail always follows unless --until ends it. Accepted out of habit of tail -f.",
    ),
]
LinesOption = Annotated[
    int | None,
    typer.Option("--lines", "-l", min=0, help="Start with this many of each partition's last records. Default: 10."),
]


def tail(
    topics: TopicsArgument,
    *,
    lines: LinesOption = None,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="WHERE", help="Where to start; values as for consume --from.")
    ] = None,
    follow: FollowOption = False,
    until: UntilOption = None,
    filter_: FilterOption = None,
    key: OnlyKeyOption = None,
    max_: Annotated[int | None, typer.Option("--max", "-n", min=1, help="Stop after this many records.")] = None,
    raw: RawOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write each record and its topic as a line of JSON.")] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
) -> None:
    """Follow all partitions of some topics, until Ctrl-C or --until. Each line has place, time (UTC), key and value.

    The output is coloured on a terminal, unless NO_COLOR is set. To continue later at the same place, use consume.

    \b
    Examples:
      tidelog tail orders
      tidelog tail orders clicks --lines 0
      tidelog tail orders --from 1h --filter type=refund
      tidelog tail orders --from 2h --until 1h
      tidelog tail orders --max 3 --json
    """
    del follow
    api_timeout_ms = timeout * 1000
    with (
        reporting(as_json=as_json),
        Consumer(
            bootstrap_servers=url,
            token_file=token_file,
            auto_offset_reset="none",
            filter=filter_of(filter_, key),
            api_timeout_ms=api_timeout_ms,
        ) as consumer,
        Admin(url, token_file=token_file, timeout_ms=api_timeout_ms) as admin,
    ):
        if lines is not None and from_ is not None:
            raise ValueError("--lines and --from exclude each other")
        where = PositionSpec(last=10 if lines is None else lines) if from_ is None else parse_position(from_)
        end = None if until is None else parse_position(until, "--until")
        ranges = [resolve_range(admin, topic, where, None, end) for topic in dict.fromkeys(topics)]
        whole = Range(
            begin={place: offset for each in ranges for place, offset in each.begin.items()},
            end={place: offset for each in ranges for place, offset in each.end.items()},
        )
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        writer = json_writer(with_topic=True) if as_json else place_writer(topic_colours(topics) if coloured else None)
        if not raw and not as_json:
            writer = RecordDecoder(admin).writer(writer)
        interrupts = Interrupts()
        with interrupts.caught(), progress("", shown=False) as bar:
            copy(
                consumer,
                whole,
                StreamSink(writer),
                CopyProgress(),
                follow=end is None,
                records_max=max_,
                interrupts=interrupts,
                bar=bar,
            )
