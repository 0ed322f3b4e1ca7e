"""The commands, put together."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from log_format.version import __version__
from tidelog.cli import bench
from tidelog.cli.commands import group, topic
from tidelog.cli.commands.cat import cat
from tidelog.cli.commands.cluster import cluster
from tidelog.cli.commands.collect import collect
from tidelog.cli.commands.completion import completion, prepare_completion
from tidelog.cli.commands.consume import consume
from tidelog.cli.commands.demo import demo
from tidelog.cli.commands.doctor import doctor
from tidelog.cli.commands.lag import lag
from tidelog.cli.commands.maintain import maintain
from tidelog.cli.commands.pipeline import pipeline
from tidelog.cli.commands.produce import produce
from tidelog.cli.commands.serve import serve
from tidelog.cli.commands.tail import tail
from tidelog.cli.commands.verify import verify
from tidelog.cli.commands.version import version
from tidelog.cli.terminal import settings_file
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.help_text import Commands

FURTHER_OPTIONS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""They go to the program that the command becomes."""

app = Commands(
    name="tidelog",
    help="A message log on object storage: Kafka's model, a topic is a Delta table.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.command()(produce)
app.command()(consume)
app.command()(collect)
app.command()(tail)
app.command()(cat)
app.command()(lag)
app.add_typer(bench.app, name="bench")
app.command()(verify)
app.command()(doctor)
app.command()(cluster)
app.command(epilog=None, context_settings=FURTHER_OPTIONS)(serve)
app.command()(maintain)
app.command(epilog=None, context_settings=FURTHER_OPTIONS)(pipeline)
app.command(epilog=None)(demo)
app.command(epilog=None)(completion)
app.command(epilog=None)(version)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidelog {__version__}")
        raise typer.Exit(ExitCode.OK)


@app.callback()
def options(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="TIDELOG_CONFIG",
            metavar="FILE",
            help="Settings (TOML), below options and TIDELOG_… . Default: ~/.config/tidelog/config.toml, if it is there.",
        ),
    ] = None,
    version_: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""
    del version_  # its callback has seen it
    if not context.resilient_parsing:
        context.default_map = settings_file.load(context, config)


def run() -> None:
    """Run the command that the process was started with, and exit with its code."""
    prepare_completion()
    try:
        app(prog_name="tidelog")
    except SystemExit as ended:
        if ended.code == ExitCode.INTERRUPTED:
            _end_at_once(ExitCode.INTERRUPTED)
        raise
    except KeyboardInterrupt:  # before typer has put the commands together
        _end_at_once(ExitCode.INTERRUPTED)


def _end_at_once(code: int) -> None:
    """Exit with what is written, but without the interpreter's own end.

    Everything is closed by now, but Ctrl-C does not wait for a thread inside a library. The interpreter's end would stop that
    thread there; inside C++ (Arrow) the whole process would abort.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
