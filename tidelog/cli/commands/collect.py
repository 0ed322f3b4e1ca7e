"""``tidelog collect``: follow files and send their lines, each once."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from tidelog.bodies.encode import Compression
from tidelog.cli.terminal.console import CommandFailed, JsonOption, TokenFileOption, UrlOption, reporting
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.names import complete_topics

if TYPE_CHECKING:
    from tidelog.collect.agent import Agent
    from tidelog.collect.counts import Counts
    from tidelog.collect.journal import Journal, Level
    from tidelog.collect.program import Options

NEEDED: Final = ("numpy", "prometheus_client", "pyarrow")
"""Packages of the extra ``collect``."""
_COLOURS: Final = {"info": "", "warning": "yellow", "error": "red"}


class Start(StrEnum):
    """Position in files that exist when an agent first runs."""

    BEGINNING = "beginning"
    END = "end"


PatternsArgument = Annotated[
    list[str], typer.Argument(metavar="PATTERN...", help="Files, or quoted patterns such as '/var/log/**/*.log'.")
]
TopicOption = Annotated[
    str, typer.Option("--topic", "-t", help="The topic, which must exist.", autocompletion=complete_topics)
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        help="State file: how far each file was sent. Default: collect-TOPIC.state in ~/.local/state/tidelog."
    ),
]
FromOption = Annotated[
    Start, typer.Option("--from", help="Where to start in files that exist at the very first start.")
]
LinksOption = Annotated[
    bool,
    typer.Option(
        "--follow-links",
        help="Follow symbolic links. Safe only if no other user can create a link that the patterns match.",
    ),
]
OnceOption = Annotated[bool, typer.Option("--once", help="Send the current content, and exit.")]
MultilineOption = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX", help="A matching line starts a record; other lines belong to the record before them."
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX", help="The match in a record is its key: group 'key', else group 1, else the whole match."
    ),
]
UnfinishedOption = Annotated[
    float,
    typer.Option(
        metavar="DURATION",
        parser=in_seconds(least=0),
        help="How long to wait for the end of an unfinished last line before it is sent.",
    ),
]
HeadersOption = Annotated[bool, typer.Option(help="Send the headers 'file' and 'line' with each record.")]
CompressionOption = Annotated[Compression | None, typer.Option(help="Compression of requests. Default: none.")]
MetricsOption = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Serve metrics for Prometheus on this port of 127.0.0.1.")
]


def collect(
    patterns: PatternsArgument,
    *,
    topic: TopicOption,
    state: StateOption = None,
    from_: FromOption = Start.BEGINNING,
    follow_links: LinksOption = False,
    once: OnceOption = False,
    multiline_start: MultilineOption = None,
    key_regex: KeyOption = None,
    unfinished_after: UnfinishedOption = 5.0,
    headers: HeadersOption = True,
    compression: CompressionOption = None,
    metrics_port: MetricsOption = None,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow files and send each of their lines to a topic once, until Ctrl-C or SIGTERM.

    Rotated files (renamed, copied and truncated, compressed) are followed. Killed at any moment, it continues at the same place
    after the next start. On a terminal it shows its status; else, and with --json, it writes each event as a line of JSON to
    standard error. docs/collect.md has the details.

    \b
    Examples:
      tidelog collect '/var/log/nginx/access.log*' --topic access
      tidelog collect 'app/*.log' -t app --multiline-start '^\\d{4}-' --key-regex 'user=(\\w+)'
      tidelog collect 'exports/*.csv.gz' -t exports --once --state exports.state
    """
    with reporting(as_json=as_json, notes_waits=False):
        _check_installed()
        from tidelog.collect.body import RecordForm  # noqa: PLC0415 - needs what is optional
        from tidelog.collect.collector import RecordRules  # noqa: PLC0415
        from tidelog.collect.program import Options  # noqa: PLC0415

        rules = RecordRules(
            form=RecordForm(key=_pattern("--key-regex", key_regex), headers=headers),
            first_line=_pattern("--multiline-start", multiline_start),
            unfinished_s=unfinished_after,
        )
        options = Options(
            patterns=tuple(patterns),
            topic=topic,
            state=state or _state_directory() / f"collect-{topic}.state",
            from_end=from_ is Start.END,
            follow_links=follow_links,
            once=once,
            rules=rules,
            url=url,
            token_file=token_file,
            compression=compression,
            metrics_port=metrics_port,
        )
        _run(options, as_json=as_json)


def _check_installed() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise CommandFailed(f"collecting needs {', '.join(missing)}: pip install 'tidelog[collect]'")


def _run(options: Options, *, as_json: bool) -> None:
    from tidelog.collect.program import start  # noqa: PLC0415
    from tidelog.collect.sink import RecordsTooLarge  # noqa: PLC0415
    from tidelog.collect.state_file import StateFileError  # noqa: PLC0415

    terminal = Console(stderr=True)
    with _status(terminal, shown=terminal.is_terminal and not as_json) as (journal, show):
        try:
            with start(options, journal, show) as agent, _stopping_on_signals(agent) as received:
                agent.run()
                incomplete = agent.incomplete
        except (StateFileError, RecordsTooLarge) as error:
            raise CommandFailed(str(error)) from None
    if signal.SIGINT in received:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if options.once and incomplete:
        raise CommandFailed(f"not everything was sent: {incomplete}. The events above name the files")


def _pattern(option: str, text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(os.fsencode(text))
    except re.error as error:
        raise ValueError(f"{option} {text!r} is not a valid regular expression: {error}") from error


def _state_directory() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tidelog"


@contextlib.contextmanager
def _status(terminal: Console, *, shown: bool) -> Iterator[tuple[Journal, Callable[[Counts], None]]]:
    """Yield the sink of events, and the function that is called periodically to show the agent's state."""
    from tidelog.collect.journal import JsonJournal, TextJournal  # noqa: PLC0415

    if not shown:
        yield JsonJournal(_write_line), lambda _: None
        return

    def write(level: Level, text: str) -> None:
        terminal.print(text, style=_COLOURS[level.value], markup=False, highlight=False, soft_wrap=True)

    with terminal.status("starting") as status:
        yield TextJournal(write), lambda counts: status.update(counts.summary())


def _write_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


@contextlib.contextmanager
def _stopping_on_signals(agent: Agent) -> Iterator[list[int]]:
    """Stop the agent in order on SIGTERM and Ctrl-C, and yield the list of received signals."""
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        agent.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
