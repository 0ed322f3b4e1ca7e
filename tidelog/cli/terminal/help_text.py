"""How commands look in ``--help``, and what they say of options that are switches.

Typer shows a switch as if it took a value (``--json <bool>``), and keeps the line breaks of docstrings in all paragraphs but the
first. Here a switch stands alone, and a paragraph is as wide as the terminal, unless it begins with ``\\b``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from tidelog.cli.terminal.admin_call import with_options
from tidelog.cli.terminal.exit_code import EPILOG
from tidelog.cli.terminal.names import RUNNING

_Function = TypeVar("_Function", bound=Callable[..., Any])

_UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""Click's, which Typer does not hand on."""
_ALIASES: Final = {"ls": ("list",), "rm": ("delete", "remove", "revoke")}
"""What fingers type, by the commands that it means where a group has one. Without a group it is said of topics."""
_TOPICS: Final = "topic"
_TRUTH: Final = frozenset({"true", "false", "yes", "no", "1", "0"})


class Command(TyperCommand):
    """A command whose help is readable."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        settings["help"] = _joined(settings.get("help"))
        super().__init__(name, **settings)

    def get_params(self, ctx: Any) -> Any:
        """All parameters, ``--help`` among them."""
        return _without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run it. Error messages can name what the command was given."""
        RUNNING.set(ctx)
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises what it did before; a switch that was given a value is named."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            switch = _switch_with_value(given, super().get_params(ctx))
            if switch is None:
                raise
            said = f"{switch} takes no value: write it for yes, leave it out for no"
            raise _UsageError(said, ctx=ctx) from error


class Group(TyperGroup):
    """A group of commands whose help is readable."""

    def get_params(self, ctx: Any) -> Any:
        """All parameters, ``--help`` among them."""
        return _without_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, under its own name, which settings go by. Raises what it did before, with a hint."""
        meant = _meant(self.commands, args[0])
        try:
            return super().resolve_command(ctx, [*meant, *args[1:]])
        except _UsageError as error:
            told = f"{_TOPICS} {args[0]}"
            if meant == [args[0]] and args[0] in getattr(self.commands.get(_TOPICS), "commands", {}):
                error.message = f"No such command {args[0]!r}. Did you mean {told!r}?"
            raise


class Commands(typer.Typer):
    """A Typer of these."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, epilog=EPILOG, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Function], _Function]:
        """As ``typer.Typer.command``, for functions that may take an ``AdminCall``."""
        register = super().command(name, cls=Command, **{"epilog": EPILOG, **settings})

        def command(function: _Function) -> _Function:
            register(with_options(function))
            return function

        return command


def _joined(text: str | None) -> str | None:
    """Each paragraph in one line, but those that begin with ``\\b``."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)


def _meant(commands: Mapping[str, Any], word: str) -> list[str]:
    """The word, or the words that it stands for among these commands."""
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
