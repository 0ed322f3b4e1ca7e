"""Assembly of all commands."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from log_format.version import __version__
from tidelog.cli import bench
from tidelog.cli.commands import acl, catalog, group, pin, queue, quota, role, schema, share, token, topic
from tidelog.cli.commands.backup import backup, restore
from tidelog.cli.commands.cat import cat
from tidelog.cli.commands.cluster import cluster
from tidelog.cli.commands.collect import collect
from tidelog.cli.commands.completion import completion, prepare_completion
from tidelog.cli.commands.consume import consume
from tidelog.cli.commands.cost import cost
from tidelog.cli.commands.credentials import credentials
from tidelog.cli.commands.demo import demo
from tidelog.cli.commands.doctor import doctor
from tidelog.cli.commands.help import help_
from tidelog.cli.commands.lag import lag
from tidelog.cli.commands.maintain import maintain
from tidelog.cli.commands.pipeline import pipeline
from tidelog.cli.commands.produce import produce
from tidelog.cli.commands.serve import serve
from tidelog.cli.commands.sql import sql
from tidelog.cli.commands.tail import tail
from tidelog.cli.commands.top import top
from tidelog.cli.commands.verify import verify
from tidelog.cli.commands.version import version
from tidelog.cli.commands.whoami import whoami
from tidelog.cli.terminal import settings_file
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.help_text import Commands, Gateway, Pipeline

FURTHER_OPTIONS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings that pass unknown options on to the program that the command becomes."""

app = Commands(
    name="tidelog",
    help="A message log on object storage, with Kafka's model. Each topic is a Delta table.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
app.add_typer(topic.app, name="topic")
app.add_typer(pin.app, name="pin")
app.add_typer(schema.app, name="schema")
app.add_typer(group.app, name="group")
app.add_typer(queue.app, name="queue")
app.command()(produce)
app.command()(consume)
app.command()(collect)
app.command()(tail)
app.command()(cat)
app.command()(sql)
app.command()(lag)
app.command()(top)
app.add_typer(bench.app, name="bench")
app.command()(verify)
app.command()(doctor)
app.command()(backup)
app.command()(restore)
app.command()(cluster)
app.command()(cost)
app.command()(whoami)
app.add_typer(token.app, name="token")
app.add_typer(role.app, name="role")
app.add_typer(acl.app, name="acl")
app.add_typer(quota.app, name="quota")
app.add_typer(share.app, name="share")
app.add_typer(catalog.app, name="catalog")
app.command()(credentials)
app.command(epilog=None, cls=Gateway, context_settings=FURTHER_OPTIONS)(serve)
app.command()(maintain)
app.command(epilog=None, cls=Pipeline, context_settings=FURTHER_OPTIONS)(pipeline)
app.command(epilog=None)(demo)
app.command(epilog=None)(completion)
app.command("help", epilog=None)(help_)
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
            help="Settings file (TOML). Options and TIDELOG_… variables override it. "
            "Default: ~/.config/tidelog/config.toml, if it exists.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--url", metavar="URL", help="The gateway's address, for any command: the same as the command's own --url."
        ),
    ] = None,
    version_: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Process the options before the command."""
    del version_  # its callback has handled it
    if url is not None:
        _set_for(context, "TIDELOG_URL", url)
    if not context.resilient_parsing:
        context.default_map = settings_file.load(context, config)


def _set_for(context: typer.Context, variable: str, value: str) -> None:
    """Set an environment variable until the command has ended."""
    before = os.environ.get(variable)
    os.environ[variable] = value

    def restore() -> None:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before

    context.call_on_close(restore)


def run() -> None:
    """Run the command given by the process's arguments, and exit with its code."""
    try:
        try:
            _on_interrupt(signal.default_int_handler)
            prepare_completion()
            app(prog_name="tidelog")
        finally:
            _on_interrupt(signal.SIG_DFL)  # the interpreter's shutdown would show a traceback
    except SystemExit as ended:
        if ended.code == ExitCode.INTERRUPTED:
            _end_at_once(ExitCode.INTERRUPTED)
        raise
    except KeyboardInterrupt:  # before Typer has started, or after it has ended
        _end_at_once(ExitCode.INTERRUPTED)


def _on_interrupt(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    """Set the handler of Ctrl-C, unless the process was started to ignore it."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _end_at_once(code: int) -> None:
    """Flush the output and exit without the interpreter's shutdown.

    Everything is closed by now, but after Ctrl-C a thread may still be inside a library. The shutdown would stop that thread
    there; inside C++ (Arrow) the whole process would abort.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
