"""``tidelog version``."""

from __future__ import annotations

import importlib.metadata
import platform

from log_format.version import __version__
from tidelog.cli.terminal.console import JsonOption, output, print_json

_SHOWN = ("pyarrow", "fastapi", "pyspark", "boto3")
"""Packages that decide which commands work."""


def version(as_json: JsonOption = False) -> None:
    """Show the versions of Tidelog, Python and optional packages.

    \b
    Examples:
      tidelog version --json
    """
    found: dict[str, str | None] = {"tidelog": __version__, "python": platform.python_version()}
    for name in _SHOWN:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    if as_json:
        print_json(found)
        return
    for name, number in found.items():
        output().print(f"{name:8} {number or '(not installed)'}", markup=False)
