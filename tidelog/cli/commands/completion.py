"""``tidelog completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import importlib
import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

_VARIABLE = "_TIDELOG_COMPLETE"
"""In the environment: what a shell's script asks."""


class Shell(StrEnum):
    """Those that are supported."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Write a script that teaches the shell to complete tidelog's commands and options.

    \b
    Examples:
      tidelog completion bash > tidelog.bash
      tidelog completion zsh > _tidelog
      tidelog completion fish > tidelog.fish
    """
    found = _typer().get_completion_script(prog_name="tidelog", complete_var=_VARIABLE, shell=shell.value)
    sys.stdout.write(f"{found}\n")


def prepare_completion() -> None:
    """To be called before the command line is read: where a shell asks, it is answered."""
    if _VARIABLE in os.environ:
        _typer().completion_init()


def _typer() -> Any:
    """Typer's own scripts and answers, which belong together. They are a module of its own without a documented name."""
    return importlib.import_module("typer.completion")
