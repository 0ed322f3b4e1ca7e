"""``tidelog completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import importlib
import sys
from enum import StrEnum
from typing import Annotated

import typer


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
    # Typer's own, which its handling of the shell's questions belongs to; it has no public name.
    found = importlib.import_module("typer.completion").get_completion_script(
        prog_name="tidelog", complete_var="_TIDELOG_COMPLETE", shell=shell.value
    )
    sys.stdout.write(f"{found}\n")
