"""``tidelog help``: the same as ``--help``."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def help_(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="The command, as it is typed.")] = None,
) -> None:
    """Show the commands, or the help of one of them.

    \b
    Examples:
      tidelog help
      tidelog help topic create
    """
    shown = context.find_root()
    left = list(words or ())
    while left:
        group: Any = shown.command
        if not hasattr(group, "commands"):
            raise typer.BadParameter(f"{shown.command_path} has no subcommands, so no {left[0]!r}")
        name, command, left = group.resolve_command(shown, left)
        shown = typer.Context(command, info_name=name, parent=shown)
    typer.echo(shown.get_help())
