"""The option ``--config`` of commands that make or alter topics."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.terminal.names import complete_settings
from tidelog.cli.terminal.units import setting_value

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME=VALUE",
        autocompletion=complete_settings,
        help="A setting; repeatable. Units: 7d, 1h30m, 512KiB, 1GB.",
    ),
]


def settings_of(config: list[str] | None) -> dict[str, int | str]:
    """Return the settings that ``--config`` names. Raises ``ValueError``."""
    settings: dict[str, int | str] = {}
    for text in config or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"--config {text!r} is not NAME=VALUE")
        settings[name] = setting_value(name, value)
    return settings
