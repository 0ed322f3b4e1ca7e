"""Secrets and the process list, which every user of a machine can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from gateway.settings.settings import Settings
from tidelog.cli.app import app

WORDS = ("token", "secret", "password", "credential")


def _options(command: Any) -> Iterator[str]:
    for each in getattr(command, "commands", {}).values():
        yield from _options(each)
    for parameter in command.params:
        yield from parameter.opts


def _secret(names: Iterator[str]) -> set[str]:
    return {name for name in names if any(word in name for word in WORDS) and not name.endswith(("-file", "_file"))}


def test_no_option_takes_a_secret() -> None:
    """Of the command line and of a gateway: a token comes by a file or the environment. An id is none."""
    assert _secret(_options(typer.main.get_command(app))) == {"token_id"}
    assert _secret(iter(Settings.model_fields)) == set()
    assert "bootstrap_token_file" in Settings.model_fields
