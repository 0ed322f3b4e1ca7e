"""``tidelog help``: what ``--help`` says, for fingers that type it so."""

from __future__ import annotations

from typing import Annotated

import typer


def help_(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="The command, as it is typed.")] = None,
) -> None:
    """Show the commands, or what one of them takes.

    \b
    Examples:
      tidelog help
      tidelog help topic create
    """
    shown = context.find_root()
    for word in words or ():
        commands = getattr(shown.command, "commands", {})
        if word not in commands:
            raise typer.BadParameter(f"{shown.command_path} has no command {word!r}; it has {', '.join(commands)}")
        shown = typer.Context(commands[word], info_name=word, parent=shown)
    typer.echo(shown.get_help())
