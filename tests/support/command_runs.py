"""Commands of ``tidelog`` run in this process."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import typer.main
import typer.testing
from typer.testing import CliRunner, Result

from tidelog.cli.app import app

# It would be put together for each run, which takes a tenth of a second.
typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]


class Run(Protocol):
    """Run a command; its result is never a traceback."""

    def __call__(self, *arguments: object, given: bytes | str | None = None, **environment: str) -> Result:
        """With ``given`` on its standard input."""
        ...


def runner(url: str) -> Run:
    """Runs commands against the gateway at ``url``."""

    def invoke(*arguments: object, given: bytes | str | None = None, **environment: str) -> Result:
        result = CliRunner().invoke(
            app, list(map(str, arguments)), input=given, env={"TIDELOG_URL": url, **environment}
        )
        assert "Traceback" not in result.output
        return result

    return invoke
