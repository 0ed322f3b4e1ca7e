"""Confirmation of what can't be undone: asked on a terminal, demanded as ``--yes`` where there is none."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Needed where there is no terminal to ask at.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Return once the user agrees; ``yes``: the user has. Raises ``ValueError`` where nobody can be asked, ``typer.Abort`` for a
    no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ValueError(f"{question} There is no terminal to ask at, so nothing was changed: give --yes to do it.")
    typer.confirm(question, abort=True, err=True)
