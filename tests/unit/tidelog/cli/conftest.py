"""What tests of commands share: ``run`` a command in this process, over the in-process gateway.

``plain`` is in force everywhere: no settings of whoever runs the tests, a wide terminal without colours.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from tidelog.cli.app import app


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TIDELOG_")] + ["FORCE_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDELOG_CONFIG", os.devnull)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def run(gateway: Any) -> Callable[..., Any]:
    """``run("topic", "list", given=b"…")``: the result of the command, which never ends in a traceback."""

    def invoke(*arguments: str, given: bytes | str | None = None, **environment: str) -> Any:
        result = CliRunner().invoke(
            app, list(map(str, arguments)), input=given, env={"TIDELOG_URL": gateway.url, **environment}
        )
        assert "Traceback" not in result.output
        return result

    return invoke
