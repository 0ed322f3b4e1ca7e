"""``tidelog completion``: scripts for shell completion of commands and options."""

from __future__ import annotations

import importlib
import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

_VARIABLE = "_TIDELOG_COMPLETE"
"""Environment variable by which a shell's script requests completion."""


class Shell(StrEnum):
    """Supported shell."""

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
    """Prepare Typer to answer if a shell requests completion. Must be called before the command line is parsed."""
    if is_completion():
        _typer().completion_init()


def is_completion() -> bool:
    """Return whether a shell requests completion."""
    return _VARIABLE in os.environ


def _typer() -> Any:
    """Return Typer's completion module, which has both the scripts and the answers but no documented name."""
    return importlib.import_module("typer.completion")
