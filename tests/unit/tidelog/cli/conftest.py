"""What tests of commands share: ``run`` a command in this process, over the in-process gateway.

``plain`` is in force everywhere: no settings of this machine's user, a wide terminal without colours.
"""

from __future__ import annotations

import os

import pytest

from tests.support.command_runs import Run, runner
from tests.support.fake_gateway import FakeGateway


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TIDELOG_")] + ["FORCE_COLOR"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDELOG_CONFIG", os.devnull)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def run(gateway: FakeGateway) -> Run:
    """``run("topic", "list", given=b"…")``: the result of the command, which never ends in a traceback."""
    return runner(gateway.url)
