"""Help texts of commands, and errors about switches.

Typer shows a switch as if it took a value (``--json <bool>``), and keeps the line breaks of docstrings in all paragraphs but the
first. Here a switch is shown without a value, and a paragraph is as wide as the terminal, unless it begins with ``\\b``.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from tidelog.cli.terminal.ca_file import with_ca_file
from tidelog.cli.terminal.console import note, report_usage
from tidelog.cli.terminal.exit_code import EPILOG, ExitCode
from tidelog.cli.terminal.names import RUNNING
from tidelog.cli.terminal.options import with_options
from tidelog.cli.terminal.usage_errors import ClickError, usage_text
from tidelog.programs import SAFE_PATH
from tidelog.programs import command as program_command

_Function = TypeVar("_Function", bound=Callable[..., Any])

_UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""Click's usage error, which Typer does not export."""
_ALIASES: Final = {"ls": ("list",), "rm": ("delete", "remove", "revoke")}
"""Habitual command words, with the commands that they stand for in a group. Without a group they refer to topics."""
_TOPICS: Final = "topic"
_RENAMING: Final = frozenset({"rename", "mv", "move"})
_NO_RENAMING: Final = (
    "Nothing can be renamed. For a topic: 'tidelog topic clone OLD NEW' makes a copy; point producers and consumers to it, "
    "set the groups' offsets by 'tidelog group reset', then 'tidelog topic delete OLD'."
)
_TRUTH: Final = frozenset({"true", "false", "yes", "no", "1", "0"})


class Command(TyperCommand):
    """A command with readable help."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        settings["help"] = _joined(settings.get("help"))
        super().__init__(name, **settings)

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, including ``--help``."""
        return _without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command, and make its arguments available to error messages."""
        RUNNING.set(ctx)
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as Typer does; the error for a switch with a value names the switch."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            switch = _switch_with_value(given, super().get_params(ctx))
            if switch is None:
                raise
            said = f"{switch} takes no value: give it alone to switch it on"
            raise _UsageError(said, ctx=ctx) from error


class Program(Command):
    """A command that becomes another program, to which it passes further options: its help shows theirs, too."""

    module: str

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the command's help, then that of the program, if its packages are installed."""
        super().format_help(ctx, formatter)
        environment = {**os.environ, **SAFE_PATH, "COLUMNS": str(shutil.get_terminal_size().columns)}
        asked = program_command(self.module, ["--help"])
        shown = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        if shown.returncode == 0:
            options = re.sub(r"\A\n  -h, .*\n(  --version .*\n)?", "", shown.stdout.partition("options:")[2])
            typer.echo(f"All settings, each an option, too:\n{options.rstrip()}")


class Gateway(Program):
    """``tidelog serve``."""

    module = "gateway"


class Pipeline(Program):
    """``tidelog pipeline``."""

    module = "spark_pipeline.jobs.pipeline"


class Group(TyperGroup):
    """A group of commands with readable help."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program, as Typer does; errors of usage are said in the commands' own words."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        try:
            code = run()
        except ClickError as error:
            if type(error).__name__ != "NoArgsIsHelpError":  # its help is shown already
                report_usage(usage_text(error), as_json="--json" in (sys.argv if args is None else args))
            sys.exit(error.exit_code)
        except typer.Abort:
            note("Nothing was changed.")
            sys.exit(ExitCode.FAILED)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, including ``--help``."""
        return _without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolve aliases to the command's own name, which settings use. Raises as Typer does, with a hint."""
        if args[0] in _RENAMING:
            raise _UsageError(f"No such command {args[0]!r}. {_NO_RENAMING}", ctx=ctx)
        meant = _meant(self.commands, args[0])
        try:
            return super().resolve_command(ctx, [*meant, *args[1:]])
        except _UsageError as error:
            told = f"{_TOPICS} {args[0]}"
            if meant == [args[0]] and args[0] in getattr(self.commands.get(_TOPICS), "commands", {}):
                error.message = f"No such command {args[0]!r}. Did you mean {told!r}?"
            raise


class Commands(typer.Typer):
    """A Typer application of these commands and groups."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, epilog=EPILOG, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Function], _Function]:
        """Register a command, as ``typer.Typer.command``; the function may take ``Options``, and
        gets ``--ca-file`` if it has ``--url``."""
        register = super().command(name, **{"cls": Command, "epilog": EPILOG, **settings})

        def command(function: _Function) -> _Function:
            register(with_ca_file(with_options(function)))
            return function

        return command


def _joined(text: str | None) -> str | None:
    """Join each paragraph into one line, except those that begin with ``\\b``."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)


def _meant(commands: Mapping[str, Any], word: str) -> list[str]:
    """Return the word, or the command words that it stands for."""
    if word in commands or word not in _ALIASES:
        return [word]
    found = [name for name in _ALIASES[word] if name in commands]
    return found[:1] or ([_TOPICS, word] if _TOPICS in commands else [word])


def _without_types(parameters: Sequence[Any]) -> Sequence[Any]:
    for each in parameters:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return parameters


def _switch_with_value(given: Sequence[str], parameters: Sequence[Any]) -> str | None:
    switches = {name for each in parameters if getattr(each, "is_flag", False) for name in each.opts}
    for index, word in enumerate(given):
        name, equals, _ = word.partition("=")
        if name in switches and (equals or (index + 1 < len(given) and given[index + 1].lower() in _TRUTH)):
            return name
    return None
