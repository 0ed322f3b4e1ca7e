"""Assembly of the commands. A program that runs one command imports no other: all of them take half the time of a start."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final

import typer

from log_format.version import __version__
from tidelog.cli.commands.completion import is_completion, prepare_completion
from tidelog.cli.terminal import settings_file
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.cli.terminal.help_text import Commands, Gateway, Pipeline

_FURTHER_OPTIONS: Final = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Settings that pass unknown options on to the program that the command becomes."""
_PLAIN: Final[Mapping[str, Any]] = {}
_WITHOUT_EPILOG: Final[Mapping[str, Any]] = {"epilog": None}
_GROUPS: Final = (
    *("topic", "pin", "schema", "group", "queue", "bench"),
    *("token", "role", "acl", "quota", "share", "catalog"),
)
"""Groups of commands: each is the ``app`` of a module with its name."""
_COMMANDS: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(("produce", "consume", "collect", "tail", "cat", "sql", "lag", "top"), _PLAIN),
    **dict.fromkeys(("verify", "doctor", "backup", "restore", "cluster", "cost", "whoami", "credentials"), _PLAIN),
    "serve": {"epilog": None, "cls": Gateway, "context_settings": _FURTHER_OPTIONS},
    "maintain": _PLAIN,
    "pipeline": {"epilog": None, "cls": Pipeline, "context_settings": _FURTHER_OPTIONS},
    **dict.fromkeys(("demo", "completion", "help", "version"), _WITHOUT_EPILOG),
}
"""Commands, each with its settings: a function of a module with its name."""
_NEED_ALL: Final = frozenset({"help", "completion"})


def assembled(only: str | None = None) -> Commands:
    """Return the application of all commands, or of one command or group."""
    made = Commands(
        name="tidelog",
        help="A message log on object storage, with Kafka's model. Each topic is a Delta table.",
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_show_locals=False,
    )
    made.callback()(_options)
    for name in _GROUPS:
        if only in (None, name):
            folder = "" if name == "bench" else "commands."
            made.add_typer(import_module(f"tidelog.cli.{folder}{name}").app, name=name)
    for name, settings in _COMMANDS.items():
        if only in (None, name):
            module = import_module(f"tidelog.cli.commands.{'backup' if name == 'restore' else name}")
            made.command(name, **settings)(getattr(module, "help_" if name == "help" else name))
    return made


def needed_alone(arguments: Sequence[str]) -> str | None:
    """Return the command or group that a program with these arguments needs alone; None: it may need all."""
    word = arguments[0] if arguments else ""
    is_known = word in _GROUPS or (word in _COMMANDS and word not in _NEED_ALL)
    # A settings file may have settings of every command, and each is checked.
    return word if is_known and not is_completion() and not settings_file.is_given() else None


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidelog {__version__}")
        raise typer.Exit(ExitCode.OK)


def _options(
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
    _open_closed_streams()
    try:
        try:
            _on_interrupt(signal.default_int_handler)
            prepare_completion()
            assembled(needed_alone(sys.argv[1:]))(prog_name="tidelog")
        finally:
            _on_interrupt(signal.SIG_DFL)  # the interpreter's shutdown would show a traceback
    except SystemExit as ended:
        if ended.code == ExitCode.INTERRUPTED:
            _end_at_once(ExitCode.INTERRUPTED)
        raise
    except KeyboardInterrupt:  # before Typer has started, or after it has ended
        _end_at_once(ExitCode.INTERRUPTED)


def _open_closed_streams() -> None:
    """Open the null device as each standard stream that the process was started without (``>&-``).

    Else it is None, and a file or connection that is opened later may take its number.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # ``serve`` becomes another program
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - a descriptor


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
